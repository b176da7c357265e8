//! How long a task may run.

use crate::queued::Load;
use crate::settings::{Mode, PolicySettings};

/// The base slice divided by the number of tasks that wait per CPU, rounded up; alike for every class.
///
/// With up to one waiter per CPU everyone gets the base slice; then a round of the queue takes about one base slice,
/// until the shortest slice is reached. In [`Mode::Fifo`] the slice is fixed.
#[must_use]
pub fn slice_ns(settings: &PolicySettings, load: Load, nr_cpus: u32) -> u64 {
    if settings.load.mode == Mode::Fifo {
        return settings.base_slice_ns;
    }
    let divisor = u64::from(load.nr_waiting.div_ceil(nr_cpus.max(1)).max(1));
    (settings.base_slice_ns / divisor).max(settings.min_slice_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LoadSettings;

    fn slice_us(nr_waiting: u32, nr_cpus: u32) -> u64 {
        slice_ns(&PolicySettings::default(), Load { nr_running: nr_cpus, nr_waiting }, nr_cpus) / 1_000
    }

    #[test]
    fn the_divisor_is_rounded_up() {
        assert_eq!([0, 1, 4, 5, 8, 9].map(|nr_waiting| slice_us(nr_waiting, 4)), [5000, 5000, 5000, 2500, 2500, 1666]);
    }

    #[test]
    fn the_shortest_slice_is_a_floor() {
        assert_eq!(slice_us(79, 4), 250);
        assert_eq!(slice_us(u32::MAX, 0), 250);
    }

    #[test]
    fn fifo_has_one_slice() {
        let settings: PolicySettings = LoadSettings { mode: Mode::Fifo, ..LoadSettings::default() }.into();
        assert_eq!(slice_ns(&settings, Load { nr_running: 4, nr_waiting: 500 }, 4), 5_000_000);
    }
}
