//! `cargo xtask test --list`: what there is to run.

use scherzo_cases as cases;
use scherzo_rig::harness::Group;
use scherzo_scenarios::SCENARIOS;

use super::guests::DELIBERATE_FAULTS;
use super::{TestOptions, Tier};
use crate::lint;

/// Prints a line for each lint, scenario and guest case that is selected, and one for each tier that cargo runs.
pub(super) fn print(options: &TestOptions) {
    for (tier, line) in lines().iter().filter(|(tier, line)| options.wants(*tier) && options.is_selected(line)) {
        println!("{}\t{line}", tier.name());
    }
}

fn lines() -> Vec<(Tier, String)> {
    let lints = lint::NAMES.iter().map(|name| (Tier::Lint, format!("lint/{name}")));
    let unit = (Tier::Unit, "unit/… (`cargo test --workspace -- --list`)".to_owned());
    let bus = (Tier::Bus, "bus/… (`cargo test --workspace -- --list`)".to_owned());
    let scenarios = SCENARIOS.iter().map(|scenario| (Tier::Desktop, scenario.name.to_owned()));
    let usual = cases::plan(false);
    let mark = |name: &str| if is_in(&usual, name) { "" } else { "\tonly with --long" };
    let of = |group: &Group, tier: Tier, mark: &dyn Fn(&str) -> &'static str| {
        let line = |name: String| (tier, format!("{name}\tthe {} kernel{}", group.kernel, mark(&name)));
        group.cases.iter().map(|case| line(group.full_name(case))).collect::<Vec<_>>()
    };
    let faults = format!("{DELIBERATE_FAULTS}\tthe {} kernel", cases::deliberate_faults().kernel);
    // Which kernels there are is known when the archive was asked.
    let every = "kernel …/…\tevery kernel of the archive\tonly with --kernels all or --long".to_owned();
    let guests = cases::plan(true);
    let packages = cases::package_plan();
    lints
        .chain([unit, bus])
        .chain(scenarios)
        .chain(guests.iter().flat_map(|group| of(group, Tier::Vm, &mark)))
        .chain([faults, every].map(|line| (Tier::Vm, line)))
        .chain(packages.iter().flat_map(|group| of(group, Tier::Packages, &|_| "")))
        .collect()
}

fn is_in(groups: &[Group], name: &str) -> bool {
    groups.iter().any(|group| group.cases.iter().any(|case| group.full_name(case) == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_is_listed_and_long_cases_are_marked() {
        let lines = lines();
        let has = |tier, text: &str| lines.iter().any(|(of, line)| *of == tier && line.contains(text));
        assert!(has(Tier::Lint, "lint/formatting"));
        assert!(has(Tier::Unit, "unit/"));
        assert!(has(Tier::Bus, "bus/"));
        assert!(has(Tier::Desktop, "app/controls"));
        assert!(has(Tier::Vm, "newest kernel/load\tthe newest kernel"));
        assert!(has(Tier::Vm, "stress/an hour of mixed stress\tthe newest kernel\tonly with --long"));
        assert!(!has(Tier::Vm, "newest kernel/load\tthe newest kernel\tonly with --long"));
        assert!(!has(Tier::Vm, "parallel CPUs, 6.18/fork storm\tthe long-term kernel\tonly with --long"));
        assert!(has(Tier::Vm, "parallel CPUs, newest/fork storm\tthe newest kernel\tonly with --long"));
        assert!(has(Tier::Vm, "guests/deliberate faults are shown\tthe long-term kernel"));
        assert!(has(Tier::Vm, "every kernel of the archive\tonly with --kernels all"));
        assert!(has(Tier::Packages, "packages/install"));
    }
}
