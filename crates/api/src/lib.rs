//! Scherzo: api.
