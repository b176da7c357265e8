//! What the engine may do, and how it gives that up: once its programs are loaded, all but locking memory, and once it is
//! attached, everything.
//!
//! Loading takes capabilities; attaching and scheduling take none: the kernel asks for them when programs are loaded and maps
//! are made, not when what is open is attached or run or a link is closed. What is restored at the end, the sysctl, belongs to root,
//! and needs no more than that.

use std::io;

use anyhow::{Context, Result};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

/// What is left to do before attaching takes no more than this: memory is locked.
const ATTACHING: CapabilitySet = CapabilitySet::IPC_LOCK;

/// Gives up every capability for good: no program that this process could start would get one back.
///
/// The engine has one thread, so that what concerns the thread concerns the process.
pub fn drop_all() -> Result<()> {
    keep(CapabilitySet::empty())
}

/// Gives up, for good, what attaching does not take.
pub fn keep_attaching() -> Result<()> {
    let held = thread::capabilities(None).map_err(io::Error::from).context("cannot read capabilities")?;
    keep(held.permitted & ATTACHING)
}

fn keep(kept: CapabilitySet) -> Result<()> {
    thread::set_no_new_privs(true).map_err(io::Error::from).context("cannot forbid new privileges")?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    thread::set_capabilities(None, sets).map_err(io::Error::from).context("cannot give up capabilities")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_engine_keeps_what_attaching_takes() {
        let kept = std::thread::spawn(|| {
            let before = thread::capabilities(None).unwrap().permitted;
            keep_attaching().unwrap();
            (before, thread::capabilities(None).unwrap())
        });
        let (before, sets) = kept.join().unwrap();
        assert_eq!((sets.permitted, sets.effective), (before & ATTACHING, before & ATTACHING));
        assert!(sets.inheritable.is_empty(), "{sets:?}");
    }

    /// In a thread of its own, since that is what loses its rights.
    #[test]
    fn nothing_is_left_and_nothing_comes_back() {
        let held = std::thread::spawn(|| {
            drop_all().unwrap();
            let full = CapabilitySets { permitted: CapabilitySet::BPF, ..thread::capabilities(None).unwrap() };
            let regained = thread::set_capabilities(None, full);
            (thread::capabilities(None).unwrap(), thread::no_new_privs().unwrap(), regained.is_ok())
        });
        let (sets, no_new_privs, regained) = held.join().unwrap();
        assert!(sets.effective.is_empty() && sets.permitted.is_empty() && sets.inheritable.is_empty(), "{sets:?}");
        assert!(no_new_privs && !regained);
    }
}
