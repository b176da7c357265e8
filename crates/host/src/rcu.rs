//! RCU's grace-period thread, and the policy by which the kernel schedules it.
//!
//! The thread is an ordinary one, unless the kernel was started with `rcutree.kthread_prio=`. All of RCU waits for it, and
//! after 21 s complains.

use std::fs;
use std::io;

use crate::process::numbers;
use crate::{Error, Root};

/// The thread of kernels that preempt readers of RCU, and of those that do not.
const NAMES: [&str; 2] = ["rcu_preempt", "rcu_sched"];
/// `kthreadd`, the parent of all kernel threads; nobody else can be.
const KTHREADD: u64 = 2;

/// Fields of `/proc/PID/stat`, as in proc(5), counted from 1.
const PARENT: usize = 4;
const RT_PRIORITY: usize = 40;
const POLICY: usize = 41;

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPolicy {
    /// As an ordinary one: by sched_ext if that takes all tasks, else by the kernel's own scheduler.
    Normal,
    /// Before every ordinary one, at this priority from 1 to 99, until it sleeps.
    Fifo(u8),
    /// In any other way.
    Other,
}

/// A thread of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelThread {
    /// Its number.
    pub pid: u32,
    /// How it is scheduled.
    pub policy: ThreadPolicy,
}

/// RCU's grace-period thread; `None` where it is not to be seen.
pub fn rcu_thread(root: &Root) -> Result<Option<KernelThread>, Error> {
    let path = root.path("proc");
    let directory = fs::read_dir(&path).map_err(|source| Error::Read { path, source })?;
    // The kernel starts the thread early and lists processes by number, so that this is a matter of a few files.
    let pids = directory.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let file = format!("proc/{pid}/stat");
        // Processes come and go; one that has gone is none.
        let Ok(text) = root.read(&file) else { continue };
        if is_rcu_thread(&text) {
            let policy = policy(&text).ok_or_else(|| root.unexpected(&file, &text, "how a thread is scheduled"))?;
            return Ok(Some(KernelThread { pid, policy }));
        }
    }
    Ok(None)
}

fn is_rcu_thread(stat: &str) -> bool {
    let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(name, _)| name);
    NAMES.contains(&name) && numbers(stat).and_then(|number| number(PARENT)) == Some(KTHREADD)
}

fn policy(stat: &str) -> Option<ThreadPolicy> {
    let number = numbers(stat)?;
    Some(match i32::try_from(number(POLICY)?).ok()? {
        libc::SCHED_OTHER => ThreadPolicy::Normal,
        libc::SCHED_FIFO => ThreadPolicy::Fifo(u8::try_from(number(RT_PRIORITY)?).ok()?),
        _ => ThreadPolicy::Other,
    })
}

/// Has the running kernel schedule a thread in this way; [`ThreadPolicy::Other`] is none to ask for.
pub fn set_policy(thread: u32, policy: ThreadPolicy) -> io::Result<()> {
    let (policy, sched_priority) = match policy {
        ThreadPolicy::Normal => (libc::SCHED_OTHER, 0),
        ThreadPolicy::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        ThreadPolicy::Other => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let pid = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the call reads `parameters`, which outlives it, and changes nothing in this process' memory.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::sched_setscheduler(pid, policy, &raw const parameters) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    fn stat(pid: u32, name: &str, parent: u32, policy: i32, priority: u8) -> (String, String) {
        let before = format!("{pid} ({name}) I {parent} 0 0 0 -1 2129984 0 0 0 0 0 9 0 0 20 0 1 0 5 0 0 1");
        let addresses = " 0".repeat(RT_PRIORITY - 26);
        (format!("proc/{pid}/stat"), format!("{before}{addresses} {priority} {policy} 0 0 0\n"))
    }

    fn found(processes: &[(String, String)]) -> Option<KernelThread> {
        let files: Vec<_> = processes.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        let (_dir, root) = tree(&[&files[..], &[("proc/stat", "cpu 1\n"), ("proc/fs/x", "")]].concat());
        rcu_thread(&root).unwrap()
    }

    #[test]
    fn it_is_found_by_name_and_parent() {
        let others = [
            stat(3, "rcu_tasks_kthread", 2, libc::SCHED_OTHER, 0),
            stat(900, "rcu_preempt", 1, libc::SCHED_FIFO, 7),
            stat(901, "x) (rcu_sched", 2, libc::SCHED_FIFO, 8),
        ];
        assert_eq!(found(&others), None, "nobody may pass for it");
        for name in NAMES {
            let processes = [&others[..], &[stat(17, name, 2, libc::SCHED_OTHER, 0)]].concat();
            assert_eq!(found(&processes), Some(KernelThread { pid: 17, policy: ThreadPolicy::Normal }));
        }
    }

    #[test]
    fn its_policy_is_told() {
        let policy = |policy, priority| found(&[stat(17, "rcu_preempt", 2, policy, priority)]).unwrap().policy;
        assert_eq!(policy(libc::SCHED_OTHER, 0), ThreadPolicy::Normal);
        assert_eq!(policy(libc::SCHED_FIFO, 99), ThreadPolicy::Fifo(99));
        for other in [libc::SCHED_BATCH, libc::SCHED_RR, libc::SCHED_DEADLINE] {
            assert_eq!(policy(other, 1), ThreadPolicy::Other);
        }
    }

    #[test]
    fn a_line_that_is_cut_short_is_an_error() {
        let (file, text) = stat(17, "rcu_preempt", 2, libc::SCHED_OTHER, 0);
        let (_dir, root) = tree(&[(&file, text.split_at(60).0)]);
        assert!(matches!(rcu_thread(&root), Err(Error::Content { .. })));
    }

    /// In a thread of its own, since a thread that asks for a policy which nobody gives it stays as it is.
    #[test]
    fn the_kernel_is_asked() {
        let itself = 0;
        set_policy(itself, ThreadPolicy::Normal).unwrap();
        assert!(set_policy(itself, ThreadPolicy::Fifo(100)).is_err(), "there is no such priority");
        assert!(set_policy(itself, ThreadPolicy::Other).is_err());
        assert!(set_policy(u32::MAX, ThreadPolicy::Normal).is_err());
    }
}
