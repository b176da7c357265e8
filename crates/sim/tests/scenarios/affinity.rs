//! Tasks that may run on some CPUs only.

use super::{all_rules_hold, outcome};

const MS: u64 = 1_000_000;

/// Those that sleep want more than there is of the only CPU that it may run on. A third of that is its share, and half of that promised.
#[test]
fn a_hog_beside_sleepers_of_its_only_cpu_has_half_of_its_share() {
    let report = outcome("pinned-sleepers");
    all_rules_hold(&report);
    let hog = report.group("pinned-hog").expect("a group");
    assert!(8 * hog.share >= 160 && hog.longest_gap_ns < 30 * MS, "{report}");
}

/// The turns that the hog has for that are brief, and sound does not stutter. Beside it three want what sound leaves of the CPU.
#[test]
fn sound_beside_a_hog_and_sleepers_of_its_only_cpu_is_in_time() {
    let report = outcome("pinned-sound");
    all_rules_hold(&report);
    let [hog, sound] = ["pinned-hog", "sound"].map(|name| report.group(name).expect("a group"));
    assert!(4 * hog.share >= 150 && sound.nr_missed == 0, "{report}");
}

/// The same of two CPUs, as of a container with a set of them.
#[test]
fn a_hog_beside_sleepers_of_its_set_of_cpus_has_turns() {
    let report = outcome("set-of-sleepers");
    all_rules_hold(&report);
    let hog = report.group("hog-in-set").expect("a group");
    assert!(hog.longest_gap_ns < 200 * MS, "{report}");
}

/// Whatever the other CPUs do, nobody waits for much longer than a second.
#[test]
fn the_least_of_a_cpu_waits_for_a_second() {
    let report = outcome("pinned-priorities");
    all_rules_hold(&report);
    for name in ["light", "idle", "normal"] {
        assert!(report.group(name).expect("a group").longest_gap_ns < 1_200 * MS, "{name}: {report}");
    }
}

/// What may not run on a CPU does not make others take turns there that weigh nothing beside each other.
#[test]
fn weights_count_where_others_may_not_run() {
    let report = outcome("hogs-in-set");
    all_rules_hold(&report);
    let [in_set, niced] = ["in-set", "niced"].map(|name| report.group(name).expect("a group"));
    assert!(niced.share <= 10, "{report}");
    let (least, most) = in_set.task_share;
    assert!(least * 11 > most * 10, "{report}");
}

/// Pairs that take over from each other on one CPU, while the other CPUs are busy as well.
#[test]
fn pairs_leave_others_turns_on_their_cpu() {
    let report = outcome("pinned-pairs");
    all_rules_hold(&report);
    assert!(report.group("pairs").expect("a group").longest_gap_ns < 100 * MS, "{report}");
}

/// One CPU idles, so the kernel would give each waker's CPU to whom it wakes.
#[test]
fn pairs_move_where_others_may_not_run() {
    let report = outcome("pairs-beside-set");
    all_rules_hold(&report);
    let shares = ["hog-in-set", "pinned-hog"].map(|name| report.group(name).expect("a group").share);
    assert!(shares.into_iter().all(|share| share > 220), "{report}");
}
