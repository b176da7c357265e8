//! `cargo xtask codegen` writes this file from crates/policy: change that.

/// What the setting `policy` takes.
pub(crate) const POLICIES: &[&str] = &["scherzo", "fifo", "classes"];
