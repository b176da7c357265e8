//! What things take on the machine of a scenario, where that is not what is assumed else.

use serde::Deserialize;
use toml::Spanned;

use super::place::{ScenarioError, in_range};
use crate::profile::Costs;

/// Costs that differ from [`Costs::default`], in nanoseconds.
#[expect(clippy::struct_field_names, reason = "units are part of names")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// A context switch.
    pub switch_ns: Option<Spanned<u64>>,
    /// Until another CPU has been interrupted.
    pub ipi_ns: Option<Spanned<u64>>,
    /// Until interrupt work of the same CPU runs.
    pub interrupt_ns: Option<Spanned<u64>>,
    /// Out of idleness.
    pub idle_exit_ns: Option<Spanned<u64>>,
    /// Data from the cache of another CPU, by how far it was: of the same core, cache, node, machine.
    pub migrate_ns: Option<[Spanned<u64>; 4]>,
    /// The engine: a turn of its loop.
    pub turn_ns: Option<Spanned<u64>>,
    /// The engine: a record that it reads.
    pub record_ns: Option<Spanned<u64>>,
    /// The engine: a dispatched task that it writes.
    pub dispatched_ns: Option<Spanned<u64>>,
}

impl CostSpec {
    /// What makes no sense in it. What everything waits for takes some time, so that rules have bounds and loops come to an end.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let costs = [
            ("switch_ns", &self.switch_ns, 100, 1_000_000),
            ("ipi_ns", &self.ipi_ns, 100, 1_000_000),
            ("interrupt_ns", &self.interrupt_ns, 100, 1_000_000),
            ("idle_exit_ns", &self.idle_exit_ns, 0, 10_000_000),
            ("turn_ns", &self.turn_ns, 100, 10_000_000),
            ("record_ns", &self.record_ns, 0, 1_000_000),
            ("dispatched_ns", &self.dispatched_ns, 0, 1_000_000),
        ];
        for (key, cost, least, most) in costs {
            cost.as_ref().map_or(Ok(()), |cost| in_range(key, cost, least, most))?;
        }
        self.migrate_ns.iter().flatten().try_for_each(|cost| in_range("migrate_ns", cost, 0, 10_000_000))
    }

    pub(super) fn costs(&self) -> Costs {
        let usual = Costs::default();
        let or = |cost: &Option<Spanned<u64>>, usual| cost.as_ref().map_or(usual, |cost| *cost.get_ref());
        let migrate_ns = self.migrate_ns.as_ref().map(|costs| costs.each_ref().map(|cost| *cost.get_ref()));
        Costs {
            switch_ns: or(&self.switch_ns, usual.switch_ns),
            ipi_ns: or(&self.ipi_ns, usual.ipi_ns),
            interrupt_ns: or(&self.interrupt_ns, usual.interrupt_ns),
            idle_exit_ns: or(&self.idle_exit_ns, usual.idle_exit_ns),
            migrate_ns: migrate_ns.unwrap_or(usual.migrate_ns),
            turn_ns: or(&self.turn_ns, usual.turn_ns),
            record_ns: or(&self.record_ns, usual.record_ns),
            dispatched_ns: or(&self.dispatched_ns, usual.dispatched_ns),
        }
    }
}
