//! Clients that ask servers.

use scherzo_sim::{BaselineScheduler, GroupReport, Scenario, SimulationOptions, SimulationReport, run};

use super::{all_rules_hold, known_fault, outcome, scenario};

fn under_eevdf(scenario: &Scenario) -> SimulationReport {
    run(scenario, &SimulationOptions { baseline: Some(BaselineScheduler::Eevdf), ..SimulationOptions::default() })
}

fn requests(report: &SimulationReport) -> &GroupReport {
    all_rules_hold(report);
    report.group("requests").expect("a group")
}

/// Clients and servers use less than their share, so neither the server nor the client that it answers waits for a hog. Under EEVDF one
/// request of a hundred takes milliseconds.
#[test]
fn requests_are_answered_at_once_beside_hogs() {
    let (ours, theirs) = (outcome("requests"), under_eevdf(&scenario("requests")));
    let [[median_ns, p99_ns, ..], [.., their_p99_ns, _, _]] =
        [&ours, &theirs].map(|report| requests(report).response_ns);
    assert!(requests(&ours).nr_done > 4_000, "{ours}");
    assert!(median_ns < 600_000 && p99_ns < 1_000_000 && p99_ns < their_p99_ns, "{ours}with EEVDF:\n{theirs}");
}

/// Alone, a request takes its writing, the reply, and two wake-ups. Where there are too few servers they answer one after the other.
#[test]
fn requests_wait_for_a_server() {
    let with = |clients: usize, servers: usize| {
        let text = format!(
            "about = \"\"\nduration_ms = 2000\n[machine]\ncpus = 4\n[[group]]\nname = \"requests\"\nkind = \"request\"\n\
             count = {clients}\ncompute_us = 50\nreply_us = 1000\nservers = {servers}\n"
        );
        let report =
            run(&Scenario::parse("requests.toml", &text).expect("a good scenario"), &SimulationOptions::default());
        (requests(&report).response_ns[0], requests(&report).nr_done, report)
    };
    let (alone_ns, _, report) = with(1, 1);
    assert!((1_005_000..1_020_000).contains(&alone_ns), "{report}");
    let (behind_two_ns, nr_done, report) = with(3, 1);
    assert!((2_900_000..3_100_000).contains(&behind_two_ns) && (1_900..2_000).contains(&nr_done), "{report}");
    let (beside_one_ns, nr_done, report) = with(3, 2);
    assert!(beside_one_ns < 1_700_000 && (3_700..4_000).contains(&nr_done), "{report}");
}

/// It wants twice its share, as it may, and misses nine of ten frames: it takes turns with the hogs while those are owed time that the clients
/// have. What waits there in its turn counts as owed too, which makes it worse. EEVDF misses half.
#[test]
fn known_fault_a_game_beside_clients_takes_turns_because_of_them() {
    let report = outcome("frames-beside-clients");
    all_rules_hold(&report);
    let frames = report.group("frames").expect("a group");
    known_fault("a game beside clients", frames.nr_missed * 10 < frames.nr_done, &report);
}
