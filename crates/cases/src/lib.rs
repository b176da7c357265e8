//! What must hold inside a guest, and which guests it is tried in.
//!
//! A group's cases build on each other's boot, not on each other's outcome: each brings the service to the state it needs.

mod agreement;
mod applications;
mod bad_input;
mod basics;
mod cores;
pub mod demo;
mod faults;
mod hardening;
mod idle;
mod kills;
mod latency;
mod packages;
mod people;
mod power;
mod readme;
mod sharing;
mod storms;
mod survival;
mod system_events;
mod topology;
mod unsupported;

use scherzo_rig::harness::{Case, Group};
use scherzo_rig::kernels::Role;
use scherzo_rig::qemu::{Machine, Time};

const fn case(name: &'static str, run: fn(&mut scherzo_rig::guest::Guest) -> anyhow::Result<()>) -> Case {
    Case { name, run }
}

/// Everything that is tried on each kernel that can run the scheduler.
const SCHEDULING: &[Case] = &[
    case("boot", basics::boot),
    case("load", basics::load),
    case("a confined service", hardening::unit),
    case("an engine without rights", hardening::engine),
    case("every mode under load", basics::every_mode_under_load),
    case("1000 mode changes under load", storms::thousand_mode_changes),
    case("no page faults, little memory", basics::no_page_faults),
    case("statistics", basics::statistics_move),
    case("an idle service", idle::service),
    case("bad input", bad_input::refused_with_a_name),
    case("a second daemon", bad_input::second_daemon),
    case("somebody else's scheduler", bad_input::foreign_scheduler),
    case("affinity storm", storms::affinity),
    case("fork storm", storms::fork),
    case("a CPU leaves and returns", faults::cpu_hotplug),
    case("engine stopped for 12 s", faults::engine_stopped),
    case("engine killed", faults::engine_killed),
    case("a spare engine takes over", kills::one),
    case("a spare engine of other CPUs", kills::one_after_hotplug),
    case("daemon killed", faults::daemon_killed),
    case("a sleep", system_events::suspend),
    case("hogs beside message passing", sharing::hogs_beside_message_passing),
    case("fast and slow cores", cores::recognised),
    case("RCU's thread", survival::rcu_thread),
    case("unload", basics::unload),
    case("nothing was ejected", basics::no_ejections),
];

/// What happens around the scheduler, with the services that a laptop has. It hardly depends on the kernel: the newest one
/// has its turn in the long run.
const LIVING: &[Case] = &[
    case("a battery", power::battery),
    case("a low battery", power::low_battery),
    case("a power profile", power::profile),
    case("somebody with rights and somebody without", people::allowed_and_refused),
    case("a program with a hold is killed", people::hold_of_a_killed_program),
    case("rules for applications", applications::followed),
    case("the commands of the README", readme::commands),
    case("an upgrade while it runs", system_events::upgrade),
    case("nothing was ejected", basics::no_ejections),
];

/// What takes another start of the machine.
const LIVING_LONG: &[Case] = &[
    case("the machine starts anew", system_events::reboot),
    case("nothing was ejected after that", basics::no_ejections),
];

const LONG: &[Case] = &[
    case("100 loads and unloads", storms::hundred_loads),
    case("100 kills of the engine", storms::hundred_kills),
    case("soak of ten minutes", storms::soak),
    case("nothing was ejected in the long run", basics::no_ejections),
];

/// What has thrown other schedulers out, 15 s each.
const SURVIVAL: &[Case] = &[
    case("race-sched storm", survival::race_sched),
    case("affinity storm", survival::affinity),
    case("fork and exec storm", survival::fork_and_exec),
    case("futex storm", survival::futex),
    case("pipe storm", survival::pipe),
    case("memory at 110 %", survival::memory),
    case("a CPU that comes and goes", survival::hotplug),
    case("engine stopped", survival::stopped_engine),
    case("real-time hogs", survival::real_time),
    case("nothing was ejected", basics::no_ejections),
    case("too many real-time hogs", survival::too_much_real_time),
];

/// Two sockets of a node each, with two threads to a core: what a domain is matters here.
const TOPOLOGY: &[Case] = &[
    case("load", basics::load),
    case("every mode under load", basics::every_mode_under_load),
    case("work spreads over all domains", topology::spreads),
    case("a CPU leaves and returns", faults::cpu_hotplug),
    case("a domain leaves and returns", topology::domain_hotplug),
    case("every way to find an idle CPU", topology::placements),
    case("cores that differ", cores::placement),
    case("nothing was ejected", basics::no_ejections),
];

const SOAK: &[Case] =
    &[case("an hour of mixed stress", storms::hour), case("nothing was ejected", basics::no_ejections)];

const UNSUPPORTED: &[Case] = &[case("boot", unsupported::boot), case("a clear refusal", unsupported::refusal)];

const LATENCY: &[Case] = &[case("latency, loading and switching times", latency::promises)];

const KILLS: &[Case] =
    &[case("200 kills of the engine", kills::two_hundred), case("nothing was ejected", basics::no_ejections)];

const PACKAGES: &[Case] = &[
    case("boot", basics::boot),
    case("install", packages::install),
    case("the packages' own test", packages::smoke),
    case("the app chooses the mode", packages::app),
    case("turned on, then rebooted", packages::reboot),
    case("upgrade while running", packages::upgrade),
    case("purge", packages::purge),
];

const PACKAGES_MALFORMED_BTF: &[Case] = &[
    case("install", packages::install_unsupported),
    case("the doctor", packages::doctor_with_malformed_btf),
    case("the app", packages::app_with_malformed_btf),
];

const PACKAGES_WITHOUT_SCHED_EXT: &[Case] = &[
    case("install", packages::install_unsupported),
    case("the doctor", packages::doctor_without_sched_ext),
    case("the app", packages::app_without_sched_ext),
];

/// What `cargo xtask test packages` runs, in guests that hold nothing of ours but packages.
#[must_use]
pub fn package_plan() -> Vec<Group> {
    let machine = Machine { nr_cpus: 2, time: Time::Steady, reboots: true, ..Machine::default() };
    let group = |name, role, cases: &[Case]| Group { name, role, machine: machine.clone(), cases: cases.to_vec() };
    vec![
        group("packages", Role::Lts, PACKAGES),
        group("packages, malformed BTF", Role::MalformedBtf, PACKAGES_MALFORMED_BTF),
        group("packages, no sched_ext", Role::WithoutSchedExt, PACKAGES_WITHOUT_SCHED_EXT),
    ]
}

/// What `cargo xtask test vm` runs; `long` adds what takes long.
#[must_use]
pub fn plan(long: bool) -> Vec<Group> {
    let steady = |nr_cpus| Machine { nr_cpus, time: Time::Steady, ..Machine::default() };
    let virtual_time = Machine { nr_cpus: 4, time: Time::Virtual, ..Machine::default() };
    let living_machine = Machine { reboots: long, ..steady(2) };
    let (mut scheduling, mut living) = (SCHEDULING.to_vec(), LIVING.to_vec());
    if long {
        scheduling.extend_from_slice(LONG);
        living.extend_from_slice(LIVING_LONG);
    }
    let nodes = Machine { nr_cpus: 8, nr_nodes: 2, topology: "sockets=2,cores=2,threads=2".into(), ..steady(8) };
    let mut groups = vec![
        Group { name: "long-term kernel", role: Role::Lts, machine: steady(4), cases: scheduling.clone() },
        Group { name: "newest kernel", role: Role::Newest, machine: steady(4), cases: scheduling },
        Group { name: "virtual time", role: Role::Lts, machine: virtual_time.clone(), cases: LATENCY.to_vec() },
        Group { name: "sockets and nodes", role: Role::Newest, machine: nodes.clone(), cases: TOPOLOGY.to_vec() },
        Group { name: "in life", role: Role::Lts, machine: living_machine.clone(), cases: living.clone() },
        Group { name: "malformed BTF", role: Role::MalformedBtf, machine: steady(2), cases: UNSUPPORTED.to_vec() },
        Group { name: "no sched_ext", role: Role::WithoutSchedExt, machine: steady(2), cases: UNSUPPORTED.to_vec() },
    ];
    if long {
        let survival = SURVIVAL.to_vec();
        let slow = Machine { nr_cpus: 2, time: Time::Slow, ..Machine::default() };
        let two_in_virtual_time = Machine { nr_cpus: 2, ..virtual_time.clone() };
        groups.extend([
            Group { name: "survival, 6.18", role: Role::Lts, machine: virtual_time.clone(), cases: survival.clone() },
            Group { name: "survival, newest", role: Role::Newest, machine: virtual_time, cases: survival },
            Group { name: "sockets and nodes, 6.18", role: Role::Lts, machine: nodes, cases: TOPOLOGY.to_vec() },
            Group { name: "kills", role: Role::Lts, machine: two_in_virtual_time, cases: KILLS.to_vec() },
            Group { name: "in life, newest", role: Role::Newest, machine: living_machine, cases: living },
            Group { name: "soak", role: Role::Newest, machine: slow, cases: SOAK.to_vec() },
        ]);
    }
    groups
}
