//! What must hold inside a guest, and which guests it is tried in.
//!
//! A group's cases build on each other's boot, not on each other's outcome: each brings the service to the state it needs.

mod bad_input;
mod basics;
mod faults;
mod idle;
mod latency;
pub mod service;
mod storms;
mod unsupported;

use crate::harness::{Case, Group};
use crate::kernels::Role;
use crate::qemu::{Machine, Time};

const fn case(name: &'static str, run: fn(&mut crate::guest::Guest) -> anyhow::Result<()>) -> Case {
    Case { name, run }
}

/// Everything that is tried on each kernel that can run the scheduler.
const SCHEDULING: &[Case] = &[
    case("boot", basics::boot),
    case("load", basics::load),
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
    case("daemon killed", faults::daemon_killed),
    case("unload", basics::unload),
    case("nothing was ejected", basics::no_ejections),
];

const LONG: &[Case] = &[
    case("100 loads and unloads", storms::hundred_loads),
    case("100 kills of the engine", storms::hundred_kills),
    case("soak of ten minutes", storms::soak),
    case("nothing was ejected in the long run", basics::no_ejections),
];

const UNSUPPORTED: &[Case] = &[case("boot", unsupported::boot), case("a clear refusal", unsupported::refusal)];

const LATENCY: &[Case] = &[case("latency, loading and switching times", latency::promises)];

/// What `cargo xtask test vm` runs; `long` adds what takes long.
#[must_use]
pub fn plan(long: bool) -> Vec<Group> {
    let steady = |nr_cpus| Machine { nr_cpus, time: Time::Steady, ..Machine::default() };
    let virtual_time = Machine { nr_cpus: 4, time: Time::Virtual, ..Machine::default() };
    let mut scheduling = SCHEDULING.to_vec();
    if long {
        scheduling.extend_from_slice(LONG);
    }
    vec![
        Group { name: "long-term kernel", role: Role::Lts, machine: steady(4), cases: scheduling.clone() },
        Group { name: "newest kernel", role: Role::Newest, machine: steady(4), cases: scheduling },
        Group { name: "virtual time", role: Role::Lts, machine: virtual_time, cases: LATENCY.to_vec() },
        Group { name: "malformed BTF", role: Role::MalformedBtf, machine: steady(2), cases: UNSUPPORTED.to_vec() },
        Group { name: "no sched_ext", role: Role::WithoutSchedExt, machine: steady(2), cases: UNSUPPORTED.to_vec() },
    ]
}
