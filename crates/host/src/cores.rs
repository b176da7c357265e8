//! Which cores are slow, where a processor has fast ones as well: Intel's E-cores, ARM's LITTLE ones, AMD's compact ones.
//!
//! **Sources**, the first that tells the cores apart:
//! 1. Intel's own lists, `cpu_atom` and `cpu_lowpower`;
//! 2. `cpu_capacity`, which reckons with what a core does per cycle, not with its clock alone;
//! 3. `cpuinfo_max_freq`: the clock is all there is to go by.
//!
//! **The line.** Cores of one kind differ as well: turbo favours some of them by up to a tenth, and a task gains nothing by
//! waiting for one of these. So a kind is slow if its best core has less than four fifths of what the next better one has.
//! Where that is true more than once (ARM's little, big and prime cores) the line is where the distance is greatest. That
//! makes the middle kind fast: what a person notices is being on a little core, while a line below the prime ones would
//! leave one fast core, and big and little ones as good as each other.

use std::collections::BTreeSet;

use crate::Root;
use crate::topology::{CPUS, cpu_list};

/// CPUs of the lesser kinds, as the performance counters of Intel's hybrid processors list them.
const INTEL_LISTS: [&str; 2] = ["sys/devices/cpu_atom/cpus", "sys/devices/cpu_lowpower/cpus"];
/// Numbers that say what a CPU can do, in the directory of each.
const MEASURES: [&str; 2] = ["cpu_capacity", "cpufreq/cpuinfo_max_freq"];
/// A kind is slow if it has less than so much of the next better one.
const SLOW_PERCENT: u64 = 80;

/// The CPUs on slow cores among those online; none where all are of one kind. What is missing or makes no sense tells
/// nothing apart, since a scheduler can do without.
pub(crate) fn slow_cpus(root: &Root, online: &[usize]) -> BTreeSet<usize> {
    let measured = MEASURES.iter().map(|measure| below_the_line(&measures(root, online, measure)));
    let mut found = std::iter::once(listed_by_intel(root, online)).chain(measured);
    // Where no CPU is fast, none is slow either: the fast ones may be turned off.
    found.find(|slow| !slow.is_empty() && slow.len() < online.len()).unwrap_or_default()
}

fn listed_by_intel(root: &Root, online: &[usize]) -> BTreeSet<usize> {
    let listed = INTEL_LISTS.iter().flat_map(|list| cpu_list(root, list).unwrap_or_default());
    listed.filter(|cpu| online.contains(cpu)).collect()
}

/// What each CPU has of a measure, for those that say.
fn measures(root: &Root, online: &[usize], measure: &str) -> Vec<(usize, u64)> {
    let read = |cpu| root.read_number(&format!("{CPUS}/cpu{cpu}/{measure}")).ok().filter(|&value| value > 0);
    online.iter().filter_map(|&cpu| Some((cpu, read(cpu)?))).collect()
}

/// Those below the greatest relative distance between two that follow each other, if it is great enough.
fn below_the_line(measured: &[(usize, u64)]) -> BTreeSet<usize> {
    let levels: Vec<u64> = measured.iter().map(|&(_, value)| value).collect::<BTreeSet<_>>().into_iter().collect();
    let percent = |pair: &[u64]| u128::from(pair[0]) * 100 / u128::from(pair[1]);
    let line = levels.windows(2).min_by_key(|pair| percent(pair)).filter(|pair| percent(pair) < SLOW_PERCENT.into());
    let is_slow = |value| line.is_some_and(|pair| value <= pair[0]);
    measured.iter().filter(|(_, value)| is_slow(*value)).map(|(cpu, _)| *cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    /// The slow ones of CPUs that say this of a measure; `None` says nothing.
    fn slow_by(measure: &str, values: &[Option<&str>]) -> Vec<usize> {
        slow(&[], &[(measure, values)], &(0..values.len()).collect::<Vec<_>>())
    }

    fn slow(lists: &[(&str, &str)], measures: &[(&str, &[Option<&str>])], online: &[usize]) -> Vec<usize> {
        let mut files: Vec<_> = lists.iter().map(|(file, text)| ((*file).to_owned(), *text)).collect();
        for (measure, values) in measures {
            let said = values.iter().enumerate().filter_map(|(cpu, value)| Some((cpu, (*value)?)));
            files.extend(said.map(|(cpu, value)| (format!("{CPUS}/cpu{cpu}/{measure}"), value)));
        }
        let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        let (_dir, root) = tree(&files);
        slow_cpus(&root, online).into_iter().collect()
    }

    #[test]
    fn intel_lists_its_lesser_cores() {
        let [atom, low_power] = INTEL_LISTS;
        assert_eq!(slow(&[(atom, "4-5\n")], &[], &[0, 1, 2, 3, 4, 5]), [4, 5]);
        assert_eq!(slow(&[(atom, "2-3\n"), (low_power, "4-5\n")], &[], &[0, 1, 2, 3, 4, 5]), [2, 3, 4, 5]);
        assert_eq!(slow(&[(atom, "2-3\n")], &[], &[0, 1, 2]), [2], "CPU 3 is offline");
    }

    #[test]
    fn lists_that_tell_nothing_apart_leave_it_to_numbers() {
        let capacities: &[(&str, &[Option<&str>])] = &[(MEASURES[0], &[Some("400"), Some("1024")])];
        for list in ["", "many\n", "0-1\n"] {
            assert_eq!(slow(&[(INTEL_LISTS[0], list)], capacities, &[0, 1]), [0], "{list:?}");
        }
        assert_eq!(slow(&[(INTEL_LISTS[0], "1\n")], capacities, &[0, 1]), [1], "the list counts more");
    }

    #[test]
    fn capacity_counts_more_than_the_clock() {
        let same = &[Some("1024"), Some("1024")];
        let capacities = &[Some("1024"), Some("446")];
        let clocks = &[Some("1800000"), Some("3000000")];
        assert_eq!(slow(&[], &[(MEASURES[0], capacities), (MEASURES[1], clocks)], &[0, 1]), [1]);
        assert_eq!(slow(&[], &[(MEASURES[0], same), (MEASURES[1], clocks)], &[0, 1]), [0]);
    }

    #[test]
    fn favoured_cores_make_the_others_not_slow() {
        let turbo = [Some("5200000"), Some("5000000"), Some("4800000"), Some("4300000")];
        assert_eq!(slow_by(MEASURES[1], &turbo), [0; 0]);
        assert_eq!(slow_by(MEASURES[1], &[Some("5000"), Some("4000")]), [0; 0], "four fifths are enough");
        assert_eq!(slow_by(MEASURES[1], &[Some("5000"), Some("3999")]), [1]);
    }

    #[test]
    fn the_middle_one_of_three_kinds_is_fast() {
        let phone = [Some("325"), Some("325"), Some("790"), Some("790"), Some("1024")];
        assert_eq!(slow_by(MEASURES[0], &phone), [0, 1]);
        let nearly_alike_below = [Some("500"), Some("560"), Some("1024")];
        assert_eq!(slow_by(MEASURES[0], &nearly_alike_below), [0, 1]);
    }

    #[test]
    fn who_says_nothing_or_nonsense_is_fast() {
        let values = [Some("1024"), None, Some("fast"), Some("0"), Some("-5"), Some("300")];
        assert_eq!(slow_by(MEASURES[0], &values), [5]);
        assert_eq!(slow_by(MEASURES[0], &[None, None]), [0; 0]);
        assert_eq!(slow_by(MEASURES[0], &[Some("1"), Some("18446744073709551615")]), [0]);
    }

    #[test]
    fn cpus_that_are_offline_are_not_asked() {
        let values: &[Option<&str>] = &[Some("1024"), Some("300"), Some("1024")];
        assert_eq!(slow(&[], &[(MEASURES[0], values)], &[0, 2]), [0; 0]);
        assert_eq!(slow(&[], &[(MEASURES[0], values)], &[]), [0; 0]);
    }
}
