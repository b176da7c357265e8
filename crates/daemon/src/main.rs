//! Scherzo: daemon.

fn main() {}
