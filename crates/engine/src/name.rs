//! The name of this process, so that a search for the engine finds the one that schedules.

use std::ffi::CStr;

/// While nothing is loaded, least of all by a standby engine.
pub const WAITING: &CStr = c"scherzo-standby";
/// From the request to load on.
pub const SCHEDULING: &CStr = c"scherzo-engine";

/// Takes this name, for `ps`, `pgrep` and the kernel's log. Its command line stays as it is.
pub fn show(name: &CStr) {
    // SAFETY: the text lives through the call, which copies it; too long a one would be cut.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, since that is what gets the name.
    #[test]
    fn the_kernel_says_it_whole() {
        for name in [WAITING, SCHEDULING] {
            let said = std::thread::spawn(move || {
                show(name);
                std::fs::read_to_string("/proc/thread-self/comm").unwrap()
            });
            assert_eq!(said.join().unwrap().trim(), name.to_str().unwrap());
        }
    }
}
