//! RCU's grace-period thread, which real-time programs must not keep from running while the scheduler is loaded.
//!
//! The thread is an ordinary task, so sched_ext has it once it takes all tasks. The kernel's own scheduler keeps a share of
//! every CPU for such tasks beside real-time programs; sched_ext has one only where it has a deadline server. Elsewhere
//! loading takes this share away from RCU, which reports a stall after 21 s, and that ends every scheduler. So the thread
//! gets a real-time priority instead, as the kernel itself gives it with `rcutree.kthread_prio=`.
//!
//! What is not ours stays as it is: a thread that is no ordinary task already, since whoever started the kernel has chosen
//! so, and afterwards a thread that has any other policy or priority than it was given here.

use std::io;
use std::sync::Once;

use scherzo_host::{KernelThread, KernelTypes, Root, ThreadPolicy, rcu_thread};
use tracing::{info, warn};

/// Above whatever programs use, as the kernel's documentation asks for; the thread runs for microseconds.
const RAISED: ThreadPolicy = ThreadPolicy::Fifo(99);

/// Has the kernel at this root schedule a thread so.
pub type SetPolicy = fn(&Root, u32, ThreadPolicy) -> io::Result<()>;

/// Has the running kernel schedule a thread so.
pub fn set_policy(_: &Root, thread: u32, policy: ThreadPolicy) -> io::Result<()> {
    scherzo_host::set_policy(thread, policy)
}

/// Raises the thread and lowers it again.
#[derive(Debug)]
pub struct Rcu {
    root: Root,
    /// sched_ext has no deadline server on this kernel. Where nothing tells, nothing is changed.
    needed: bool,
    set_policy: SetPolicy,
    /// One line in the log is enough: loading goes on without.
    complained: Once,
}

impl Rcu {
    /// On a kernel of these types.
    #[must_use]
    pub fn new(root: Root, types: &KernelTypes, set_policy: SetPolicy) -> Self {
        Self { root, needed: types.has_ext_server == Some(false), set_policy, complained: Once::new() }
    }

    /// The thread, if it is to be raised.
    pub(crate) fn find_to_raise(&self) -> Option<KernelThread> {
        if !self.needed {
            return None;
        }
        match rcu_thread(&self.root) {
            Ok(Some(thread)) => return (thread.policy == ThreadPolicy::Normal).then_some(thread),
            Ok(None) => self.complain("it is not to be seen"),
            Err(error) => self.complain(&error.to_string()),
        }
        None
    }

    /// Raises it. That it cannot be done is no reason not to load.
    pub(crate) fn raise(&self, thread: KernelThread) {
        match (self.set_policy)(&self.root, thread.pid, RAISED) {
            Ok(()) => info!("RCU's thread {} has a real-time priority while the scheduler is loaded", thread.pid),
            Err(error) => self.complain(&error.to_string()),
        }
    }

    /// Makes it an ordinary one again, if it is as [`Self::raise`] leaves it.
    pub(crate) fn lower(&self) -> io::Result<()> {
        match rcu_thread(&self.root).map_err(io::Error::other)? {
            Some(thread) if thread.policy == RAISED => (self.set_policy)(&self.root, thread.pid, ThreadPolicy::Normal),
            _ => Ok(()),
        }
    }

    fn complain(&self, problem: &str) {
        self.complained.call_once(|| {
            warn!(
                "cannot give RCU's thread a real-time priority: {problem}. Real-time programs that hold every CPU for 21 s \
                 end the scheduler."
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::simulated::{self, RCU_THREAD, Tree};

    fn rcu(has_ext_server: Option<bool>, set_policy: SetPolicy) -> (tempfile::TempDir, Rcu) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        Tree::plant(root.clone()).unwrap();
        let types = KernelTypes { has_ext_server, ..KernelTypes::default() };
        (dir, Rcu::new(root, &types, set_policy))
    }

    fn policy(rcu: &Rcu) -> ThreadPolicy {
        rcu_thread(&rcu.root).unwrap().unwrap().policy
    }

    fn raise(rcu: &Rcu) {
        if let Some(thread) = rcu.find_to_raise() {
            rcu.raise(thread);
        }
    }

    #[test]
    fn it_is_raised_and_lowered() {
        let (_dir, rcu) = rcu(Some(false), simulated::set_policy);
        raise(&rcu);
        assert_eq!(policy(&rcu), RAISED);
        assert_eq!(rcu.find_to_raise(), None, "once is enough");
        rcu.lower().unwrap();
        assert_eq!(policy(&rcu), ThreadPolicy::Normal);
    }

    #[test]
    fn where_nobody_needs_it_nothing_is_touched() {
        for has_ext_server in [Some(true), None] {
            let (_dir, rcu) = rcu(has_ext_server, simulated::set_policy);
            assert_eq!(rcu.find_to_raise(), None);
        }
    }

    #[test]
    fn what_others_have_chosen_stays() {
        let (_dir, rcu) = rcu(Some(false), simulated::set_policy);
        let others = ThreadPolicy::Fifo(50);
        simulated::set_policy(&rcu.root, RCU_THREAD, others).unwrap();
        raise(&rcu);
        assert_eq!(policy(&rcu), others, "chosen before loading");
        rcu.lower().unwrap();
        assert_eq!(policy(&rcu), others, "chosen while loaded");
    }

    #[test]
    fn that_it_cannot_be_done_ends_nothing() {
        let (dir, rcu) = rcu(Some(false), |_, _, _| Err(io::ErrorKind::PermissionDenied.into()));
        raise(&rcu);
        assert!(rcu.complained.is_completed());
        assert_eq!(policy(&rcu), ThreadPolicy::Normal);
        rcu.lower().unwrap();
        std::fs::remove_dir_all(dir.path().join("proc").join(RCU_THREAD.to_string())).unwrap();
        assert_eq!(rcu.find_to_raise(), None);
        rcu.lower().unwrap();
    }
}
