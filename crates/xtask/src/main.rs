//! Scherzo: xtask.

fn main() {}
