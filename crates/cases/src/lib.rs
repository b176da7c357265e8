//! The cases that run inside guests, and the guests that they run in.
//!
//! The cases of a group share a boot, but do not depend on each other: each brings the service to the state that it needs.

mod agreement;
mod applications;
mod bad_input;
mod basics;
mod builds;
mod cores;
mod crowds;
mod deliberate;
pub mod demo;
mod faults;
mod floods;
mod foreground;
mod frames;
mod frequency;
mod hardening;
mod idle;
mod kernels;
mod kills;
mod latency;
mod limits;
mod lists;
pub mod loader;
mod messages;
mod packages;
mod parallel;
mod people;
mod ping_pong;
mod power;
mod power_cut;
mod readme;
mod recording;
mod shares;
mod sharing;
mod slices;
mod soak;
mod storms;
mod survival;
mod system_bus;
mod system_events;
mod topology;
mod unsupported;
pub mod verified;

pub use deliberate::{DELIBERATE_FAULTS_SHOWN, deliberate_faults};
pub use kernels::{kernel_group, kernel_group_name};

use lists::{
    CROWDS, FLOODS, KILLS, LATENCY, LIVING, LIVING_LONG, LOADER, LONG, LONG_PING_PONG, LONG_SHARES_AND_FRAMES,
    MANY_CPUS, OTHER_PROCESSOR, PACKAGES, PACKAGES_MALFORMED_BTF, PACKAGES_WITHOUT_SCHED_EXT, PARALLEL, PING_PONG,
    POWER_CUTS, SCHEDULING, SHARES_AND_FRAMES, SOAK, STRESS, SURVIVAL, SYSTEM_BUS, TOPOLOGY, UNSUPPORTED,
    USUAL_ON_NEWEST, case,
};
use scherzo_rig::architecture::Architecture;
use scherzo_rig::harness::{Case, Group};
use scherzo_rig::kernels::Role;
use scherzo_rig::qemu::{GuestMachine, GuestTime};

fn group(name: impl Into<String>, kernel: Role, machine: &GuestMachine, cases: &[Case]) -> Group {
    Group { name: name.into(), kernel, machine: machine.clone(), cases: cases.to_vec() }
}

/// What `cargo xtask test packages` runs, in guests that hold nothing of this project but its packages.
#[must_use]
pub fn package_plan() -> Vec<Group> {
    let machine = GuestMachine { nr_cpus: 2, time: GuestTime::Steady, reboots: true, ..GuestMachine::default() };
    vec![
        group("packages", Role::Lts, &machine, PACKAGES),
        group("packages, malformed BTF", Role::MalformedBtf, &machine, PACKAGES_MALFORMED_BTF),
        group("packages, no sched_ext", Role::WithoutSchedExt, &machine, PACKAGES_WITHOUT_SCHED_EXT),
    ]
}

fn steady(nr_cpus: u32) -> GuestMachine {
    GuestMachine { nr_cpus, time: GuestTime::Steady, ..GuestMachine::default() }
}

fn virtual_cpus(nr_cpus: u32) -> GuestMachine {
    GuestMachine { nr_cpus, time: GuestTime::Virtual, ..GuestMachine::default() }
}

fn parallel_cpus(nr_cpus: u32) -> GuestMachine {
    GuestMachine { nr_cpus, ..GuestMachine::default() }
}

fn nodes() -> GuestMachine {
    GuestMachine { nr_nodes: 2, topology: "sockets=2,cores=2,threads=2".into(), ..steady(8) }
}

/// What `cargo xtask test vm` runs; `long` adds the long tests.
#[must_use]
pub fn plan(long: bool) -> Vec<Group> {
    let (mut scheduling, mut living) = (SCHEDULING.to_vec(), LIVING.to_vec());
    let mut shares_and_frames = SHARES_AND_FRAMES.to_vec();
    if long {
        shares_and_frames.extend_from_slice(LONG_SHARES_AND_FRAMES);
        scheduling.extend_from_slice(LONG);
        living.extend_from_slice(LIVING_LONG);
    }
    let on_newest = |cases: &[Case]| {
        let mut cases = cases.to_vec();
        cases.retain(|case| long || USUAL_ON_NEWEST.contains(&case.name));
        cases
    };
    let two_cpus =
        [PING_PONG, &[case("an ejection beside a name that is not text", survival::name_that_is_not_text)]].concat();
    let laptop = GuestMachine { reboots: long, ..steady(2) };
    let mut groups = vec![
        group("long-term kernel", Role::Lts, &steady(4), &scheduling),
        group("newest kernel", Role::Newest, &steady(4), &on_newest(&scheduling)),
        group("virtual time", Role::Lts, &virtual_cpus(4), LATENCY),
        group("shares and frames, 6.18", Role::Lts, &virtual_cpus(4), &shares_and_frames),
        group("shares and frames, newest", Role::Newest, &virtual_cpus(4), &on_newest(&shares_and_frames)),
        group("one CPU, newest", Role::Newest, &virtual_cpus(1), PING_PONG),
        group("two CPUs, 6.18", Role::Lts, &virtual_cpus(2), &two_cpus),
        group("sockets and nodes", Role::Newest, &nodes(), TOPOLOGY),
        group("parallel CPUs, 6.18", Role::Lts, &parallel_cpus(4), PARALLEL),
        group("everyday use", Role::Lts, &laptop, &living),
        group("malformed BTF", Role::MalformedBtf, &steady(2), UNSUPPORTED),
        group("no sched_ext", Role::WithoutSchedExt, &steady(2), UNSUPPORTED),
    ];
    if long {
        let cut_off = GuestMachine { nr_cpus: 1, reboots: true, empty_disk: true, ..GuestMachine::default() };
        let many_cpus =
            GuestMachine { topology: "maxcpus=1024,sockets=256,cores=4".into(), memory_mib: 8192, ..steady(4) };
        let arm64 = GuestMachine { architecture: Architecture::Arm64, ..steady(4) };
        let slow = GuestMachine { nr_cpus: 2, time: GuestTime::Slow, ..GuestMachine::default() };
        groups.extend([
            group("virtual time, newest", Role::Newest, &virtual_cpus(4), LATENCY),
            group("survival, 6.18", Role::Lts, &virtual_cpus(4), SURVIVAL),
            group("survival, newest", Role::Newest, &virtual_cpus(4), SURVIVAL),
            group("crowds, 6.18", Role::Lts, &GuestMachine { memory_mib: 4096, ..virtual_cpus(2) }, CROWDS),
            group("parallel CPUs, newest", Role::Newest, &parallel_cpus(4), PARALLEL),
            group("sockets and nodes, 6.18", Role::Lts, &nodes(), TOPOLOGY),
            group("two CPUs, newest", Role::Newest, &virtual_cpus(2), LONG_PING_PONG),
            group("one CPU, 6.18", Role::Lts, &virtual_cpus(1), LONG_PING_PONG),
            group("floods", Role::Lts, &GuestMachine { reboots: true, ..virtual_cpus(4) }, FLOODS),
            group("system bus", Role::Lts, &GuestMachine { reboots: true, ..steady(2) }, SYSTEM_BUS),
            group(loader::LOADER_GROUP, Role::Lts, &virtual_cpus(4), LOADER),
            group("kills", Role::Lts, &virtual_cpus(2), KILLS),
            group("everyday use, newest", Role::Newest, &laptop, &living),
            group("1,024 possible CPUs", Role::Lts, &many_cpus, MANY_CPUS),
            group("power cuts", Role::Lts, &cut_off, POWER_CUTS),
            group("soak", Role::Lts, &steady(2), SOAK),
            group("stress", Role::Newest, &slow, STRESS),
            group("64-bit ARM, 6.18", Role::Lts, &arm64, OTHER_PROCESSOR),
        ]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/testing.md");

    /// Rows of the table of renamed cases: old and new name.
    fn renamed() -> impl Iterator<Item = (&'static str, &'static str)> {
        let section = PAGE.split_once("## Renamed").map_or("", |(_, section)| section);
        let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
        rows.skip(1)
    }

    /// Groups, and cases by their own names and by "group/name".
    fn names() -> Vec<String> {
        let groups = [plan(true), package_plan()].concat();
        let of = |group: &Group| {
            let full = group.cases.iter().map(|case| group.full_name(case)).collect::<Vec<_>>();
            let own = group.cases.iter().map(|case| case.name.to_owned()).collect::<Vec<_>>();
            [vec![group.name.clone()], full, own].concat()
        };
        groups.iter().flat_map(of).collect()
    }

    /// The processors that a text names.
    fn claimed(text: &str, names: [&str; 2]) -> [bool; 2] {
        names.map(|name| text.split_whitespace().any(|word| word == name))
    }

    #[test]
    fn packages_claim_the_processors_that_guests_have_and_no_others() {
        let plan = plan(true);
        let is_tested = |architecture| plan.iter().any(|group| group.machine.architecture == architecture);
        let tested = [Architecture::X86_64, Architecture::Arm64].map(is_tested);
        let control = include_str!("../../../packaging/debian/control");
        let fields = control.lines().filter_map(|line| line.strip_prefix("Architecture: "));
        for field in fields.filter(|field| *field != "all") {
            assert_eq!(claimed(field, ["amd64", "arm64"]), tested, "Debian: {field}");
            assert_eq!(field.split_whitespace().count(), 2, "Debian: {field}");
        }
        for (text, start) in [
            (include_str!("../../../packaging/fedora/scherzo.spec"), "ExclusiveArch:"),
            (include_str!("../../../packaging/arch/PKGBUILD"), "arch=("),
        ] {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(start));
            let line = lines.next().unwrap().trim_end_matches(')');
            assert_eq!(claimed(line, ["x86_64", "aarch64"]), tested, "{start} {line}");
            assert_eq!(line.split_whitespace().count(), 2, "{start} {line}");
        }
    }

    #[test]
    fn renamed_cases_have_their_new_names_only() {
        let names = names();
        assert!(renamed().count() >= 16, "the table in docs/testing.md is not found");
        for (old, new) in renamed() {
            assert!(names.iter().any(|name| name == new), "no group or case is called \"{new}\"");
            assert!(!names.iter().any(|name| name == old), "\"{old}\" is still called so");
        }
    }

    #[test]
    fn the_newest_kernel_has_fewer_cases_in_the_usual_run_only() {
        let of = |long, name| {
            let groups = plan(long);
            let cases = groups.iter().filter(|group| group.name == name).flat_map(|group| &group.cases);
            cases.map(|case| case.name).collect::<Vec<_>>()
        };
        for (lts, newest) in
            [("long-term kernel", "newest kernel"), ("shares and frames, 6.18", "shares and frames, newest")]
        {
            assert_eq!(of(true, newest), of(true, lts));
            assert!(of(false, newest).len() < of(false, lts).len(), "{newest}");
        }
        let usual = [of(false, "newest kernel"), of(false, "shares and frames, newest")].concat();
        for name in USUAL_ON_NEWEST {
            assert!(usual.contains(name), "no case is called \"{name}\"");
        }
    }

    #[test]
    fn cases_of_a_group_have_names_of_their_own() {
        for group in [plan(true), package_plan()].concat() {
            let mut names: Vec<_> = group.cases.iter().map(|case| case.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), group.cases.len(), "a name repeats in \"{}\"", group.name);
        }
    }
}
