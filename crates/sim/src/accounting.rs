//! What BPF counts agrees with what there is: tasks in flight after every event, and what has become of all of them at the end.

use crate::abi::{self, InFlightCounts};
use crate::invariants::Rule;
use crate::machine::Machine;
use crate::task::{OpsState, TaskId};
use scherzo_wire::layout::Counter;

/// Tasks in flight, as the machine knows them.
#[derive(Debug, Default)]
pub struct InFlightTally {
    nr: i64,
    /// The number that BPF had when its bits were looked at last.
    nr_at_last_look: i64,
    /// CPUs interrupt each other: one that takes a task back before its bit is set leaves the bit, which nobody minds.
    pub(crate) may_leave_bits: bool,
}

impl Machine {
    /// The task was given to BPF and not dispatched, or is no longer: at the end of an event, all such tasks are in flight.
    pub(crate) fn tally_in_flight(&mut self, id: TaskId) {
        let task = &mut self.tasks[id];
        let is_in_flight = task.ops_state == OpsState::Queued;
        if is_in_flight != task.is_tallied {
            task.is_tallied = is_in_flight;
            self.invariants.in_flight.nr += if is_in_flight { 1 } else { -1 };
        }
    }

    /// Compares the number of tasks in flight with BPF's number and bits.
    pub(crate) fn check_in_flight(&mut self) {
        if self.is_baseline() {
            return;
        }
        let InFlightTally { nr, nr_at_last_look, may_leave_bits } = self.invariants.in_flight;
        let counted = nr_in_flight();
        if counted != nr {
            let what = format!("BPF counts {counted} tasks in flight, there are {nr}");
            self.report_violation(Rule::InFlightCount, what);
        }
        if counted == nr_at_last_look {
            return;
        }
        self.invariants.in_flight.nr_at_last_look = counted;
        let InFlightCounts { nr_bits, nr_owned } = self.in_flight_counts();
        if nr_owned != nr || nr_bits < nr || nr_bits > nr && !may_leave_bits {
            let what = format!("{nr_bits} slots are marked and {nr_owned} of them owned, {nr} tasks are in flight");
            self.report_violation(Rule::InFlightCount, what);
        }
    }

    /// What has become of the tasks that were handed to user space, once all that was to happen has happened.
    pub(crate) fn check_counters(&mut self) {
        if self.is_baseline() || self.error().is_some() {
            return;
        }
        let handed = self.counted(Counter::Submitted);
        let ends = [Counter::User, Counter::Reclaimed, Counter::Swept, Counter::Left];
        let [user, reclaimed, swept, left] = ends.map(|counter| self.counted(counter));
        let nr_in_flight = self.invariants.in_flight.nr.cast_unsigned();
        if handed != user + reclaimed + swept + left + nr_in_flight {
            let what = format!(
                "{handed} tasks were handed to user space; {user} came back from there, {reclaimed} were reclaimed, {swept} swept, \
                 {left} left, and {nr_in_flight} are in flight"
            );
            self.report_violation(Rule::Counters, what);
        }
    }

    /// Of all CPUs.
    pub(crate) fn counted(&mut self, counter: Counter) -> u64 {
        use std::sync::atomic::Ordering::Relaxed;
        self.cpu_stats().iter().map(|cpu| cpu.counters[counter as usize].load(Relaxed)).sum()
    }

    /// What BPF's bits say, and how many of the slots that they mark are owned by user space.
    #[allow(unsafe_code)]
    fn in_flight_counts(&mut self) -> InFlightCounts {
        // SAFETY: the function only reads the scheduler's memory.
        self.bpf(0, |_| unsafe { abi::sim_bpf_in_flight_counts() })
    }
}

/// BPF's number of tasks in flight.
#[allow(unsafe_code)]
fn nr_in_flight() -> i64 {
    // SAFETY: the function only reads a variable of the scheduler's, and the lock of `crate::run` is held.
    unsafe { abi::sim_bpf_nr_in_flight() }
}
