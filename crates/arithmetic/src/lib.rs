//! The arithmetic of the policy, once for both seats.
//!
//! `include/policy.h` is C without any call of the kernel. BPF includes it, and decides with it where the kernel has the
//! seat; the engine calls the very same lines through this crate where user space has it. The types here mirror the
//! header's; the `layout` test compares them.

#![no_std]
#![allow(unsafe_code)]

/// Directory of `policy.h`, for the build of the BPF object.
pub const INCLUDE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// The longest slice.
pub const SLICE_MAX_NS: u64 = 20_000_000;
/// What a task gets at least when its turn comes.
pub const TURN_NS: u64 = 250_000;

/// What the turn of a task that must wait depends on: BPF's account of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskAccount {
    /// Its place in virtual time.
    pub vruntime: u64,
    /// How long it may still run before others.
    pub credit_ns: u64,
    /// When it is due, if it has credit.
    pub due_ns: u64,
    /// How far apart the tasks of its LLC that are not prompt may be in virtual time.
    pub max_lag: i64,
    /// What it is worth beside all other tasks.
    pub weight: u32,
    /// Tasks that wait in the LLC without being prompt, for each CPU there.
    pub nr_others: u32,
    /// 1 if it has credit, else 0.
    pub prompt: u32,
    /// The slice that it has asked for with `sched_setattr()`, in microseconds; 0 if it has not.
    pub asked_slice_us: u32,
}

/// When a task's turn comes, and how long it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskTurn {
    /// A deadline if the task goes first, else virtual runtime.
    pub vtime: u64,
    /// For how long it may run.
    pub slice_ns: u64,
    /// 1 if it waits among the prompt, before the others.
    pub first: u32,
    /// 1 if a timer ends the slice.
    pub timed: u32,
}

unsafe extern "C" {
    fn scherzo_policy_turn_of(task: *const TaskAccount, slice_ns: u64, by_arrival: bool) -> TaskTurn;
}

impl TaskAccount {
    /// The turn of a task that is queued now, where one beside which no other waits may run for `slice_ns`. In the order
    /// of arrival no task goes first. Any numbers will do: those that make no sense give a turn that makes none, within
    /// the bounds of a slice.
    #[must_use]
    pub fn turn(&self, slice_ns: u64, by_arrival: bool) -> TaskTurn {
        // SAFETY: the layouts are the header's, and the function reads `self` and nothing else.
        unsafe { scherzo_policy_turn_of(self, slice_ns, by_arrival) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    /// Of a task of nice 0 in the root.
    const FLAT_NORMAL: u32 = 1024 << 10;

    /// A task of nice 0 that computes, beside one other for each CPU.
    fn hog() -> TaskAccount {
        TaskAccount {
            vruntime: 77,
            max_lag: 1_000 * MS as i64,
            weight: FLAT_NORMAL,
            nr_others: 1,
            ..TaskAccount::default()
        }
    }

    #[test]
    fn a_task_that_computes_takes_its_turn_by_virtual_runtime() {
        let turn = hog().turn(5 * MS, false);
        assert_eq!(turn, TaskTurn { vtime: 77, slice_ns: 5 * MS / 2, first: 0, timed: 0 });
    }

    #[test]
    fn a_prompt_task_goes_first_by_deadline_while_its_credit_lasts() {
        let prompt = TaskAccount { prompt: 1, credit_ns: 12 * MS, due_ns: 7 * MS, ..hog() };
        assert_eq!(prompt.turn(5 * MS, false), TaskTurn { vtime: 7 * MS, slice_ns: 12 * MS, first: 1, timed: 0 });
    }

    #[test]
    fn in_the_order_of_arrival_no_task_goes_first() {
        let prompt = TaskAccount { prompt: 1, credit_ns: 12 * MS, ..hog() };
        let turn = prompt.turn(5 * MS, true);
        assert_eq!((turn.first, turn.vtime), (0, 77));
    }

    #[test]
    fn a_slice_that_was_asked_for_does_not_shrink() {
        let asked = TaskAccount { asked_slice_us: 12_000, nr_others: 5, ..hog() };
        assert_eq!(asked.turn(5 * MS, false).slice_ns, 12 * MS);
        let long = TaskAccount { asked_slice_us: 100_000, ..asked };
        assert_eq!(long.turn(5 * MS, false).slice_ns, SLICE_MAX_NS);
        let prompt = |credit_ns| TaskAccount { prompt: 1, credit_ns, ..asked }.turn(5 * MS, false).slice_ns;
        assert_eq!([prompt(3 * MS), prompt(30 * MS)], [3 * MS, 12 * MS], "credit is the bound of a prompt task");
    }

    #[test]
    fn a_task_that_weighs_next_to_nothing_has_a_short_turn_that_a_timer_ends() {
        let idle = TaskAccount { weight: 3 << 10, ..hog() };
        let turn = idle.turn(5 * MS, false);
        assert_eq!(
            (turn.slice_ns, turn.timed),
            (5 * MS / 2, 1),
            "3 in 1024 of a second are 2.9 ms, and ticks are 4 ms apart"
        );
        let niced = TaskAccount { weight: 15 << 10, ..hog() }.turn(5 * MS, false);
        assert_eq!((niced.slice_ns, niced.timed), (5 * MS / 2, 0), "15 in 1024 of a second are 14.6 ms");
        let crowded = TaskAccount { max_lag: 10 * MS as i64, ..idle };
        assert_eq!(crowded.turn(5 * MS, false).slice_ns, TURN_NS);
        assert_eq!(crowded.turn(5 * MS, false).timed, 1);
    }

    proptest! {
        #[test]
        fn nonsense_gives_a_slice_within_bounds(
            vruntime: u64, credit_ns: u64, due_ns: u64, max_lag: i64, weight: u32, nr_others: u32, prompt: u32,
            asked_slice_us: u32, slice_ns: u64, by_arrival: bool,
        ) {
            let task =
                TaskAccount { vruntime, credit_ns, due_ns, max_lag, weight, nr_others, prompt, asked_slice_us };
            let turn = task.turn(slice_ns, by_arrival);
            prop_assert!((TURN_NS..=SLICE_MAX_NS).contains(&turn.slice_ns), "{} ns", turn.slice_ns);
            prop_assert!(turn.first <= 1 && turn.timed <= 1);
        }
    }
}
