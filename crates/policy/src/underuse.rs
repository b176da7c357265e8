//! Whether the machine is under-used, so that order does not matter and arrival order will do.

use crate::queued::Load;

/// Waiting tasks, averaged, below which the machine counts as under-used again; in thousandths.
const WAITING_MILLI: u64 = 500;
/// The newest record's share of the average is one over this.
const INERTIA: u64 = 8;

/// Says no the moment work gets near the number of CPUs, and yes again only once hardly anything has been waiting for
/// a while: two different conditions, so that it does not flap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnderUse {
    waiting_milli: u64,
    since_ns: Option<u64>,
}

impl UnderUse {
    /// Since when, if it is.
    pub(crate) const fn since_ns(self) -> Option<u64> {
        self.since_ns
    }

    pub(crate) fn observe(&mut self, now_ns: u64, load: Load, nr_cpus: u32) {
        let waiting_milli = u64::from(load.nr_waiting) * 1000;
        self.waiting_milli = (self.waiting_milli * (INERTIA - 1) + waiting_milli) / INERTIA;
        if load.nr_running.saturating_add(1) >= nr_cpus {
            self.since_ns = None;
        } else if self.waiting_milli < WAITING_MILLI {
            self.since_ns = self.since_ns.or(Some(now_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(under_use: &mut UnderUse, nr_running: u32, nr_waiting: u32) -> bool {
        under_use.observe(7, Load { nr_running, nr_waiting }, 4);
        under_use.since_ns().is_some()
    }

    #[test]
    fn ends_at_once_and_returns_slowly() {
        let mut under_use = UnderUse::default();
        assert!(observe(&mut under_use, 2, 0));
        assert!(observe(&mut under_use, 2, 9), "waiting alone does not end it");
        assert!(!observe(&mut under_use, 3, 9), "one CPU short of full does");
        assert!(!observe(&mut under_use, 1, 0), "the average still remembers");
        let nr_more = (0..100).take_while(|_| !observe(&mut under_use, 1, 0)).count();
        assert!((5..40).contains(&nr_more), "{nr_more}");
    }

    #[test]
    fn small_machines_are_never_under_used_while_anything_runs() {
        let mut under_use = UnderUse::default();
        under_use.observe(1, Load { nr_running: 0, nr_waiting: 0 }, 1);
        assert_eq!(under_use.since_ns(), None);
    }
}
