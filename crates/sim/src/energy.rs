//! What the CPUs use of energy: while they run something, and in their idle states.
//!
//! The figures are those of no machine, only of their usual proportions: a fast core takes several times what a slow one does, a deep
//! idle state a fraction of a light one, and to enter and leave it pays off after some time only. So they tell which of two schedulers
//! or modes saves energy, not how much. The governor of idle states is taken to guess right. All CPUs keep one frequency, and threads of
//! a core count like cores.

/// A state of CPUs that idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Its name in the report.
    pub name: &'static str,
    /// It pays off from then on.
    pub from_ns: u64,
    /// What a fast core takes in it.
    power_mw: u64,
    /// To enter and leave it.
    transition_nj: u64,
}

/// The lightest first. Each takes as much as the one before at the time from which it pays off.
pub const IDLE_STATES: [IdleState; 3] = [
    IdleState { name: "light", from_ns: 0, power_mw: 600, transition_nj: 2_000 },
    IdleState { name: "middle", from_ns: 50_000, power_mw: 200, transition_nj: 22_000 },
    IdleState { name: "deep", from_ns: 600_000, power_mw: 20, transition_nj: 130_000 },
];

/// What a fast core takes while something runs on it.
const ACTIVE_MW: u64 = 4_000;
/// What a slow core takes of all that, in percent.
const SLOW_PERCENT: u64 = 25;

/// What was used. A milliwatt for a nanosecond is a picojoule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyUse {
    /// By CPUs that ran something.
    active_pj: u64,
    /// By CPUs that idled, with what it took to fall asleep and wake up.
    idle_pj: u64,
    /// Time in each of the [`IDLE_STATES`], of all CPUs together.
    pub in_state_ns: [u64; 3],
    /// How often each was entered.
    pub nr_entries: [u64; 3],
}

impl EnergyUse {
    /// A CPU ran something for so long.
    pub fn add_active(&mut self, ns: u64, is_slow: bool) {
        self.active_pj += of_core(ACTIVE_MW * ns, is_slow);
    }

    /// A CPU idled for so long, in the state that pays off for that.
    pub fn add_idle(&mut self, ns: u64, is_slow: bool) {
        let Some(index) = IDLE_STATES.iter().rposition(|state| state.from_ns <= ns).filter(|_| ns > 0) else { return };
        let state = &IDLE_STATES[index];
        self.idle_pj += of_core(state.power_mw * ns + state.transition_nj * 1_000, is_slow);
        self.in_state_ns[index] += ns;
        self.nr_entries[index] += 1;
    }

    /// All of it, in millijoules.
    #[must_use]
    pub fn total_mj(&self) -> u64 {
        (self.active_pj + self.idle_pj) / 1_000_000_000
    }

    /// What idle CPUs used of it, in thousandths.
    #[must_use]
    pub fn idle_permille(&self) -> u64 {
        let total_pj = u128::from(self.active_pj + self.idle_pj);
        (u128::from(self.idle_pj) * 1_000 / total_pj.max(1)) as u64
    }
}

fn of_core(pj: u64, is_slow: bool) -> u64 {
    if is_slow { pj * SLOW_PERCENT / 100 } else { pj }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn idle_pj(ns: u64) -> u64 {
        let mut used = EnergyUse::default();
        used.add_idle(ns, false);
        used.idle_pj
    }

    #[test]
    fn a_deeper_state_costs_the_same_where_it_begins() {
        for state in &IDLE_STATES[1..] {
            let (before, after) = (idle_pj(state.from_ns - 1), idle_pj(state.from_ns));
            assert!(before.abs_diff(after) < after / 50, "{}: {before} and {after} pJ", state.name);
        }
    }

    #[test]
    fn short_sleeps_cost_more_than_a_long_one() {
        assert!(100 * idle_pj(MS / 10) > 5 * idle_pj(10 * MS));
        let mut used = EnergyUse::default();
        used.add_idle(0, false);
        assert_eq!(used, EnergyUse::default(), "no time, no sleep");
    }

    #[test]
    fn energy_is_power_by_time() {
        let mut used = EnergyUse::default();
        used.add_active(1_000 * MS, false);
        assert_eq!((used.total_mj(), used.idle_permille()), (4_000, 0));
        used.add_active(1_000 * MS, true);
        assert_eq!(used.total_mj(), 5_000);
        used.add_idle(10_000 * MS, false);
        assert_eq!((used.total_mj(), used.in_state_ns, used.nr_entries), (5_200, [0, 0, 10_000 * MS], [0, 0, 1]));
        assert_eq!(used.idle_permille(), 38);
    }
}
