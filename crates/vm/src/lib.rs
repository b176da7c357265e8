//! Scherzo: vm.
