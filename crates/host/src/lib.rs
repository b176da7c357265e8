//! Scherzo: host.
