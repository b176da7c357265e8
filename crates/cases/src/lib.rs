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

use scherzo_rig::architecture::Architecture;
use scherzo_rig::harness::{Case, Group};
use scherzo_rig::kernels::Role;
use scherzo_rig::qemu::{GuestMachine, GuestTime};

const fn case(name: &'static str, run: fn(&mut scherzo_rig::guest::Guest) -> anyhow::Result<()>) -> Case {
    Case { name, run }
}

/// Runs on each kernel that supports the scheduler.
const SCHEDULING: &[Case] = &[
    case("boot", basics::boot),
    case("load", basics::load),
    case("load without a kernel configuration", basics::load_without_configuration),
    case("a confined service", hardening::unit),
    case("an engine without rights", hardening::engine),
    case("filters of system calls", hardening::filters),
    case("every mode under load", basics::every_mode_under_load),
    case("1000 mode changes under load", storms::thousand_mode_changes),
    case("no page faults, little memory", basics::no_page_faults),
    case("verified instructions", verified::recorded),
    case("statistics", basics::statistics_move),
    case("an idle service", idle::service),
    case("bad input", bad_input::refused_with_a_name),
    case("a second daemon", bad_input::second_daemon),
    case("another scheduler is loaded", bad_input::foreign_scheduler),
    case("affinity storm", storms::affinity),
    case("fork storm", storms::fork),
    case("a CPU goes offline and returns", faults::cpu_hotplug),
    case("engine stopped for 12 s", faults::engine_stopped),
    case("engine stopped where it is not needed", faults::engine_not_needed),
    case("engine killed", faults::engine_killed),
    case("a standby engine takes over", kills::one),
    case("a standby engine prepared for other CPUs", kills::one_after_hotplug),
    case("daemon killed", faults::daemon_killed),
    case("daemon hangs", faults::daemon_hangs),
    case("suspend and resume", system_events::suspend),
    case("hogs beside message passing", sharing::hogs_beside_message_passing),
    case("fast and slow cores are recognised", cores::recognised),
    case("frequencies that are asked for", frequency::asked_for),
    case("slices that are asked for", slices::asked_for),
    case("priority of RCU's thread", survival::rcu_thread),
    case("unload", basics::unload),
    case("nothing was ejected", basics::no_ejections),
];

/// Everyday use of a laptop: power, users, applications, upgrades. This hardly depends on the kernel, so the newest one is
/// tested in the long run only.
const LIVING: &[Case] = &[
    case("a battery", power::battery),
    case("a low battery", power::low_battery),
    case("a power profile", power::profile),
    case("a hold of a power profile", power::profile_hold),
    case("users with and without rights", people::allowed_and_refused),
    case("a program with a hold is killed", people::hold_of_a_killed_program),
    case("rules for applications", applications::followed),
    case("games that GameMode knows of", applications::game_mode),
    case("a profile of tuned", applications::tuned),
    case("changes as ananicy makes them", survival::ananicy),
    case("the commands of the README", readme::commands),
    case("upgrade while running", system_events::upgrade),
    case("a call starts an enabled service only", system_events::activation),
    case("nothing was ejected", basics::no_ejections),
];

/// Cases that need a reboot.
const LIVING_LONG: &[Case] =
    &[case("reboot", system_events::reboot), case("nothing was ejected after the reboot", basics::no_ejections)];

const LONG: &[Case] = &[
    case("100 loads and unloads", storms::hundred_loads),
    case("100 kills of the engine", storms::hundred_kills),
    case("soak of ten minutes", storms::soak),
    case("nothing was ejected in the long run", basics::no_ejections),
];

/// Loads under which other sched_ext schedulers were ejected, 15 s each.
const SURVIVAL: &[Case] = &[
    case("race-sched storm", survival::race_sched),
    case("affinity storm", survival::affinity),
    case("fork and exec storm", survival::fork_and_exec),
    case("futex storm", survival::futex),
    case("pipe storm", survival::pipe),
    case("memory at 110 %", survival::memory),
    case("a CPU goes offline and returns every 0.6 s", survival::hotplug),
    case("engine stopped", survival::stopped_engine),
    case("real-time hogs", survival::real_time),
    case("nothing was ejected", basics::no_ejections),
    case("too many real-time hogs", survival::too_much_real_time),
];

/// Thousands of tasks and control groups.
const CROWDS: &[Case] = &[
    case("3,000 hogs", crowds::hogs),
    case("3,000 idle hogs beside 8 normal ones", crowds::idle_hogs),
    case("33,000 sleeping threads", crowds::sleepers),
    case("1,000 tasks with 1 % of a CPU", crowds::limited),
    case("4,200 groups", crowds::many_groups),
    case("groups that come and go", crowds::churn),
    case("nothing was ejected", basics::no_ejections),
];

/// Two sockets with a NUMA node each and two threads per core: here LLC domains matter.
const TOPOLOGY: &[Case] = &[
    case("load", basics::load),
    case("every mode under load", basics::every_mode_under_load),
    case("work spreads over all LLC domains", topology::spreads),
    case("a CPU goes offline and returns", faults::cpu_hotplug),
    case("an LLC domain goes offline and returns", topology::domain_hotplug),
    case("every way to find an idle CPU", topology::placements),
    case("placement on fast and slow cores", cores::placement),
    case("nothing was ejected", basics::no_ejections),
];

const STRESS: &[Case] =
    &[case("an hour of mixed stress", storms::hour), case("nothing was ejected", basics::no_ejections)];

/// Accidents.
const SOAK: &[Case] =
    &[case("accidents in random order", soak::accidents), case("nothing was ejected", basics::no_ejections)];

/// The system bus goes, with everybody on it.
const SYSTEM_BUS: &[Case] = &[
    case("dbus-daemon is restarted", system_bus::daemon_restarted),
    case("dbus-broker in its place is restarted", system_bus::broker_restarted),
    case("nothing was ejected", basics::no_ejections),
];

/// On CPUs that run at the same time.
const PARALLEL: &[Case] = &[
    case("load", parallel::load),
    case("affinity storm", parallel::affinity),
    case("fork storm", parallel::fork),
    case("futex storm", parallel::futex),
    case("a CPU goes offline and returns once", parallel::hotplug),
    case("mode changes", parallel::mode_changes),
    case("stop and continue", parallel::stop_and_continue),
    case("loaded once", parallel::loaded_once),
    case("nothing was ejected", basics::no_ejections),
];

const UNSUPPORTED: &[Case] = &[case("boot", unsupported::boot), case("a clear refusal", unsupported::refusal)];

/// On a processor whose memory accesses are ordered less, and whose system calls are others.
const OTHER_PROCESSOR: &[Case] = &[
    case("boot", basics::boot),
    case("load", basics::load),
    case("an engine without rights", hardening::engine),
    case("filters of system calls", hardening::filters),
    case("every mode under load", basics::every_mode_under_load),
    case("statistics", basics::statistics_move),
    case("affinity storm", storms::affinity),
    case("fork storm", storms::fork),
    case("a CPU goes offline and returns", faults::cpu_hotplug),
    case("engine stopped for 12 s", faults::engine_stopped),
    case("engine killed", faults::engine_killed),
    case("a standby engine takes over", kills::one),
    case("daemon killed", faults::daemon_killed),
    case("unload", basics::unload),
    case("nothing was ejected", basics::no_ejections),
];

/// Switches between real-time tasks, thousands of them without one of ours between.
const PING_PONG: &[Case] = &[
    case("real-time tasks that take turns", ping_pong::for_ten_seconds),
    case("nothing was ejected", basics::no_ejections),
];

const LONG_PING_PONG: &[Case] = &[
    case("real-time tasks that take turns for a minute", ping_pong::for_a_minute),
    case("nothing was ejected", basics::no_ejections),
];

const LATENCY: &[Case] = &[case("latency, loading and switching times", latency::promises)];

/// Beside another way to change schedulers.
const LOADER: &[Case] =
    &[case("a change of mode", loader::change_of_mode), case("nothing was ejected", basics::no_ejections)];

/// Somebody floods the bus.
const FLOODS: &[Case] = &[
    case("floods of each method, dbus-daemon", floods::with_daemon),
    case("floods of each method, dbus-broker", floods::with_broker),
    case("nothing was ejected", basics::no_ejections),
];

/// The most CPUs that are supported may come, of which four are there.
const MANY_CPUS: &[Case] =
    &[case("memory of the unit", hardening::memory), case("nothing was ejected", basics::no_ejections)];

/// The machine is cut off. One CPU, so that time need not be virtual.
const POWER_CUTS: &[Case] = &[
    case("btrfs", power_cut::btrfs),
    case("XFS", power_cut::xfs),
    case("without synchronising the directory", power_cut::without_directory_sync),
];

/// Shares of the CPUs and frames of a game, in virtual time.
const SHARES_AND_FRAMES: &[Case] = &[
    case("nice 0 and nice 10", shares::nice_levels),
    case("nice 15 to 19", shares::least_nice_levels),
    case("normal, batch and idle", shares::policies),
    case("hogs beside short naps", shares::short_naps),
    case("hogs beside long naps", shares::long_naps),
    case("hogs beside real-time naps", shares::beside_real_time),
    case("hogs beside many nappers", shares::many_nappers),
    case("longest gap beside naps of 20 µs", shares::longest_gap),
    case("a hog beside pairs that wake each other", shares::beside_pairs),
    case("a hog beside sleepers of its only CPU", shares::beside_sleepers_of_its_cpu),
    case("frames beside hogs", frames::beside_hogs),
    case("frames beside niced hogs", frames::beside_niced_hogs),
    case("frames beside short naps", frames::beside_nappers),
    case("sound beside hogs", frames::sound_beside_hogs),
    case("frames beside a build", builds::game),
    case("messages between pairs", messages::between_pairs),
    case("messages from one to many", messages::from_one_to_many),
    case("a recording of a known load", recording::known_load),
    case("recordings that end early or are refused", recording::refusals),
    case("one of two scopes in front", foreground::two_scopes),
    case("one of two scopes in front by a hold", foreground::held),
    case("long frames in front", foreground::frames),
    case("a limit of half a CPU", limits::half_a_cpu),
    case("a limit of 2 % of a CPU", limits::two_percent),
    case("limits within limits", limits::nested),
    case("a limit through degraded mode and unloading", limits::through_accidents),
    case("nice 0 and nice 10, user seat", shares::nice_levels_in_user_seat),
    case("hogs beside short naps, user seat", shares::short_naps_in_user_seat),
    case("frames beside hogs, user seat", frames::beside_hogs_in_user_seat),
    case("nothing was ejected", basics::no_ejections),
    case("1000 changes of the seat", shares::thousand_seat_changes),
];

/// What takes minutes.
const LONG_SHARES_AND_FRAMES: &[Case] = &[case("a build beside a game", builds::build)];

/// Of [`SCHEDULING`] and [`SHARES_AND_FRAMES`], what depends on the kernel most: the newest one has these cases in the usual run, and all of them
/// in the long run.
const USUAL_ON_NEWEST: &[&str] = &[
    "boot",
    "load",
    "an engine without rights",
    "filters of system calls",
    "every mode under load",
    "verified instructions",
    "statistics",
    "affinity storm",
    "a CPU goes offline and returns",
    "engine killed",
    "a standby engine takes over",
    "suspend and resume",
    "hogs beside message passing",
    "frequencies that are asked for",
    "slices that are asked for",
    "unload",
    "nice 0 and nice 10",
    "normal, batch and idle",
    "hogs beside short naps",
    "longest gap beside naps of 20 µs",
    "a hog beside sleepers of its only CPU",
    "frames beside hogs",
    "sound beside hogs",
    "messages from one to many",
    "one of two scopes in front",
    "a limit of half a CPU",
    "limits within limits",
    "a limit through degraded mode and unloading",
    "nice 0 and nice 10, user seat",
    "nothing was ejected",
];

const KILLS: &[Case] =
    &[case("200 kills of the engine", kills::two_hundred), case("nothing was ejected", basics::no_ejections)];

const PACKAGES: &[Case] = &[
    case("boot", basics::boot),
    case("install", packages::install),
    case("the packages' own test", packages::smoke),
    case("the app chooses the mode", packages::app),
    case("enabled, then rebooted", packages::reboot),
    case("upgrade while running", packages::upgrade),
    case("purge", packages::purge),
];

const PACKAGES_MALFORMED_BTF: &[Case] = &[
    case("install", packages::install_unsupported),
    case("the doctor", unsupported::doctor_with_malformed_btf),
    case("the app", packages::app_with_malformed_btf),
];

const PACKAGES_WITHOUT_SCHED_EXT: &[Case] = &[
    case("install", packages::install_unsupported),
    case("the doctor", unsupported::doctor_without_sched_ext),
    case("the app", packages::app_without_sched_ext),
];

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
