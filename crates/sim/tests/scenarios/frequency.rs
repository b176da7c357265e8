//! What CPUs ask of their clocks.

use scherzo_sim::{Mode, SimulationOptions, run};

use crate::{all_rules_hold, scenario};

const GROUPS: [&str; 4] = ["light", "frames", "three", "hog"];

/// In thousandths of the highest frequency, for each of [`GROUPS`].
fn clocks(mode: Mode) -> [u64; 4] {
    let report = run(&scenario("frequency"), &SimulationOptions { mode, ..SimulationOptions::default() });
    all_rules_hold(&report);
    GROUPS.map(|name| report.group(name).expect("a group").frequency)
}

#[test]
fn a_cpu_asks_for_the_frequency_that_its_tasks_use() {
    // They use 5, 48, 75 and 100 % of their CPUs.
    let [light, frames, three, hog] = clocks(Mode::Interactive);
    assert!((50..200).contains(&light) && (480..700).contains(&frames), "{light} {frames}");
    assert!((750..900).contains(&three) && hog == 1000, "{three} {hog}");
}

#[test]
fn in_low_power_what_nobody_waits_for_is_content_with_half() {
    let [.., hog] = clocks(Mode::LowPower);
    assert!(hog <= 500, "{hog}");
}
