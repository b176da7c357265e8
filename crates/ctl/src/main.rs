//! Scherzo: ctl.

fn main() {}
