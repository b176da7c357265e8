//! Scherzo: policy.
