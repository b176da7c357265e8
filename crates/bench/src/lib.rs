//! Scherzo: bench.
