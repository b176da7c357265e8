//! What the processor has used, where it tells: Intel's RAPL, which AMD has too, by the kernel's powercap.
//!
//! Only root may read it. Virtual machines have none.

use std::fs;
use std::path::{Path, PathBuf};

use crate::clock::{SECOND_NS, now_ns};

const ZONES: &str = "/sys/class/powercap";
/// The kernel's name of a whole processor, followed by its number. Parts of one are zones below it, and counted in it.
const PACKAGE: &str = "package-";

/// What all processors have used so far.
#[derive(Clone, Debug)]
pub(crate) struct EnergyCounters {
    at_ns: u64,
    /// Each one's counter, and where it begins again, in µJ.
    packages_uj: Vec<(u64, u64)>,
}

impl EnergyCounters {
    /// `None` where no processor tells, or this user may not ask.
    pub(crate) fn read() -> Option<Self> {
        let packages_uj = packages_uj(Path::new(ZONES))?;
        Some(Self { at_ns: now_ns(), packages_uj })
    }

    /// Mean power of all processors together since then, in W. A counter may have begun again once.
    pub(crate) fn power_w(&self, before: &Self) -> Option<f64> {
        let passed_ns = self.at_ns.saturating_sub(before.at_ns);
        if self.packages_uj.len() != before.packages_uj.len() || passed_ns == 0 {
            return None;
        }
        let used_uj = |(&(now, range), &(then, _)): (&(u64, u64), &(u64, u64))| {
            now.checked_sub(then).unwrap_or_else(|| range.saturating_add(now).saturating_sub(then))
        };
        let used_uj: u64 = self.packages_uj.iter().zip(&before.packages_uj).map(used_uj).sum();
        Some(used_uj as f64 / 1e6 * SECOND_NS as f64 / passed_ns as f64)
    }
}

fn packages_uj(zones: &Path) -> Option<Vec<(u64, u64)>> {
    let mut packages: Vec<_> = fs::read_dir(zones).ok()?.flatten().map(|zone| zone.path()).collect();
    packages.retain(|zone| read(&zone.join("name")).is_some_and(|name| name.starts_with(PACKAGE)));
    packages.sort();
    let number = |path: &Path| read(path)?.parse().ok();
    let of = |zone: &PathBuf| Some((number(&zone.join("energy_uj"))?, number(&zone.join("max_energy_range_uj"))?));
    let packages_uj: Vec<_> = packages.iter().map(of).collect::<Option<_>>()?;
    (!packages_uj.is_empty()).then_some(packages_uj)
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_zone(zones: &Path, zone: &str, name: &str, energy_uj: &str) {
        let zone = zones.join(zone);
        fs::create_dir_all(&zone).unwrap();
        for (file, text) in [("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", "1000000000")] {
            fs::write(zone.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn whole_processors_are_counted_and_their_parts_are_not() {
        let zones = tempfile::tempdir().unwrap();
        write_zone(zones.path(), "intel-rapl:0", "package-0", "5000000");
        write_zone(zones.path(), "intel-rapl:0:0", "core", "3000000");
        write_zone(zones.path(), "intel-rapl:1", "package-1", "7000000");
        write_zone(zones.path(), "intel-rapl:2", "psys", "90000000");
        let counters = |at_ns| EnergyCounters { at_ns, packages_uj: packages_uj(zones.path()).unwrap() };
        let before = counters(SECOND_NS);
        assert_eq!(before.packages_uj, [(5_000_000, 1_000_000_000), (7_000_000, 1_000_000_000)]);
        write_zone(zones.path(), "intel-rapl:0", "package-0", "25000000");
        // Begun again after 1,000 J.
        write_zone(zones.path(), "intel-rapl:1", "package-1", "1000000");
        let power_w = counters(3 * SECOND_NS).power_w(&before).unwrap();
        assert!((power_w - 507.0).abs() < 1e-9, "{power_w}");
        assert_eq!(counters(SECOND_NS).power_w(&before), None);
    }

    #[test]
    fn who_does_not_tell_has_no_power() {
        let zones = tempfile::tempdir().unwrap();
        assert_eq!(packages_uj(zones.path()), None);
        assert_eq!(packages_uj(&zones.path().join("missing")), None);
        write_zone(zones.path(), "dtpm", "dtpm", "1");
        assert_eq!(packages_uj(zones.path()), None);
        write_zone(zones.path(), "intel-rapl:0", "package-0", "much");
        assert_eq!(packages_uj(zones.path()), None);
    }
}
