//! Scherzo: engine.

fn main() {}
