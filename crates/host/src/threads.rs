//! Which threads there are, and how each is scheduled.

use std::collections::HashMap;
use std::fs;

use crate::Root;
use crate::process::numbers;
use crate::topology::parse_cpus;

/// How a thread is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Its scheduling policy, as the kernel numbers it.
    pub policy: u64,
    /// It is one of the kernel's own.
    pub is_kernel: bool,
    /// Where it may run, by CPU id.
    pub cpus: Vec<usize>,
    /// Its name: bytes that its owner has chosen.
    pub name: Vec<u8>,
}

/// All threads that are there now, by their ids. What ends meanwhile is left out.
#[must_use]
pub fn threads(root: &Root) -> HashMap<i32, ThreadFacts> {
    let ids = |folder: &str| {
        let entries = fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<i32>>()
    };
    let of_all = ids("proc").into_iter().flat_map(|pid| ids(&format!("proc/{pid}/task")));
    of_all.filter_map(|tid| Some((tid, thread(root, tid)?))).collect()
}

/// One thread; `None` if it is not there, or the kernel writes something unknown.
#[must_use]
pub fn thread(root: &Root, tid: i32) -> Option<ThreadFacts> {
    const KTHREAD: u64 = 0x0020_0000;
    let read = |file: &str| fs::read(root.path(format!("proc/{tid}/{file}"))).ok();
    // Names need not be UTF-8.
    let stat = read("stat")?;
    let stat = String::from_utf8_lossy(&stat);
    let field = numbers(&stat)?;
    let status = read("status")?;
    let status = String::from_utf8_lossy(&status);
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let name = read("comm")?;
    Some(ThreadFacts {
        policy: field(41)?,
        is_kernel: field(9)? & KTHREAD != 0,
        cpus: parse_cpus(list.trim())?,
        name: name.strip_suffix(b"\n").unwrap_or(&name).to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    fn stat(name: &str, flags: u64, policy: u64) -> String {
        let zeros = |nr: usize| " 0".repeat(nr);
        format!("7 ({name}) S 1 1 1 0 -1 {flags}{}{}{policy}{}", zeros(31), " ", zeros(11))
    }

    #[test]
    fn every_thread_is_found_whatever_its_name() {
        let (_dir, root) = tree(&[
            ("proc/7/stat", &stat("a) S 9 (b", 0x0040_0000, 3)),
            ("proc/7/status", "Name:\ta) S 9 (b\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,5\n"),
            ("proc/7/comm", "a) S 9 (b\n"),
            ("proc/7/task/7/stat", ""),
            ("proc/7/task/8/stat", ""),
            ("proc/8/stat", &stat("kworker/0:1", 0x0420_8060, 0)),
            ("proc/8/status", "Cpus_allowed_list:\t0\n"),
            ("proc/8/comm", "kworker/0:1\n"),
            ("proc/self/stat", ""),
        ]);
        let found = threads(&root);
        let facts = |policy, is_kernel, cpus: &[usize], name: &[u8]| ThreadFacts {
            policy,
            is_kernel,
            cpus: cpus.to_vec(),
            name: name.to_vec(),
        };
        let batch = facts(3, false, &[0, 1, 2, 5], b"a) S 9 (b");
        assert_eq!(found, HashMap::from([(7, batch), (8, facts(0, true, &[0], b"kworker/0:1"))]));
    }

    #[test]
    fn this_thread_is_there() {
        let own = std::process::id().cast_signed();
        let found = threads(&Root::default());
        assert!(!found[&own].is_kernel && !found[&own].cpus.is_empty());
    }
}
