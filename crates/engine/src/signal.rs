//! Signals as a descriptor: being told to end must restore what loading changed, like any other end.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks SIGTERM and SIGINT for good and returns a descriptor that becomes readable when one arrives.
pub fn block_and_open() -> io::Result<OwnedFd> {
    // SAFETY: `sigset_t` is plain data that `sigemptyset` initialises; the pointers live through the calls; a
    // non-negative answer of `signalfd` is a fresh descriptor that nobody else owns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Ends this process by SIGTERM, which was blocked until now; whatever arrived, the parent sees that one. Returns only
/// if that fails.
pub fn end_by_sigterm() -> io::Result<()> {
    // SAFETY: as above; `raise` has no preconditions.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        if libc::raise(libc::SIGTERM) != 0
            || libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
