//! What is measured.

use crate::energy::EnergyUse;

/// `SCX_CPUPERF_ONE`: a CPU's highest frequency.
pub const PERFORMANCE_ALL: u32 = 1024;

/// Of one group of tasks.
#[expect(clippy::struct_field_names, reason = "units are part of names")]
#[derive(Clone, Debug, Default)]
pub struct GroupStats {
    /// CPU time.
    pub ran_ns: u64,
    /// The same, less where its CPUs asked for less than their highest frequency.
    pub performance_ns: u64,
    /// From each wake-up until the task ran.
    pub latencies_ns: Vec<u64>,
    /// Those of them where another task woke it that was about to wait for it.
    pub handovers_ns: Vec<u64>,
    /// From when a piece of work became due until it was done.
    pub responses_ns: Vec<u64>,
    /// The longest time that a task wanted a CPU in vain.
    pub longest_gap_ns: u64,
}

/// Of the whole machine.
#[derive(Clone, Debug, Default)]
pub struct MachineStats {
    /// By group.
    pub groups: Vec<GroupStats>,
    /// Events, since the beginning.
    pub nr_events: u64,
    /// Switches between tasks.
    pub nr_switches: u64,
    /// Times that a task ran elsewhere than before, by [`Distance`](crate::profile::Distance).
    pub nr_moves: [u64; 4],
    /// Times that a CPU fell idle.
    pub nr_idle_entries: u64,
    /// Time without a task, of all CPUs.
    pub idle_ns: u64,
    /// What the CPUs used.
    pub energy: EnergyUse,
    /// Turns of CPUs that one thread emulates.
    pub nr_turns: u64,
    /// Insertions that came too late.
    pub nr_dropped: u64,
    /// Most re-enqueues of a task that did not run.
    pub most_reenqueued: u32,
}

impl MachineStats {
    fn group(&mut self, group: usize) -> &mut GroupStats {
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, GroupStats::default);
        }
        &mut self.groups[group]
    }

    /// A task of the group ran for so long, on a CPU that asks for so much of [`PERFORMANCE_ALL`].
    pub fn charge(&mut self, group: usize, ran_ns: u64, performance: u32) {
        let group = self.group(group);
        group.ran_ns += ran_ns;
        group.performance_ns += ran_ns * u64::from(performance) / u64::from(PERFORMANCE_ALL);
    }

    /// A task of the group got a CPU.
    pub fn ran_after(&mut self, group: usize, waited_ns: u64, woken: bool, by_task: bool) {
        let group = self.group(group);
        group.longest_gap_ns = group.longest_gap_ns.max(waited_ns);
        if woken {
            group.latencies_ns.push(waited_ns);
        }
        if by_task {
            group.handovers_ns.push(waited_ns);
        }
    }

    /// A task of the group has not got a CPU yet.
    pub fn still_waits(&mut self, group: usize, waited_ns: u64) {
        let group = self.group(group);
        group.longest_gap_ns = group.longest_gap_ns.max(waited_ns);
    }

    /// A piece of work is done.
    pub fn responded(&mut self, group: usize, response_ns: u64) {
        self.group(group).responses_ns.push(response_ns);
    }

    /// Forgets all that was measured so far.
    pub fn restart(&mut self) {
        *self = Self { nr_events: self.nr_events, ..Self::default() };
    }
}

/// The value that so many thousandths of all do not exceed; 0 if there is none.
pub fn percentile(values: &[u64], permille: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * permille).div_ceil(1000).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!([500, 990, 1000].map(|permille| percentile(&values, permille)), [50, 99, 100]);
        assert_eq!(percentile(&[], 990), 0);
    }
}
