//! Which cases a group has, in order.

use scherzo_rig::harness::Case;

use crate::{
    applications, bad_input, basics, builds, cores, crowds, faults, floods, foreground, frames, frequency, hardening,
    idle, kills, latency, limits, loader, messages, packages, parallel, people, ping_pong, power, power_cut, readme,
    recording, shares, sharing, slices, soak, storms, survival, system_bus, system_events, topology, unsupported,
    verified,
};

pub(super) const fn case(name: &'static str, run: fn(&mut scherzo_rig::guest::Guest) -> anyhow::Result<()>) -> Case {
    Case { name, run }
}

/// Runs on each kernel that supports the scheduler.
pub(super) const SCHEDULING: &[Case] = &[
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
pub(super) const LIVING: &[Case] = &[
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
pub(super) const LIVING_LONG: &[Case] =
    &[case("reboot", system_events::reboot), case("nothing was ejected after the reboot", basics::no_ejections)];

pub(super) const LONG: &[Case] = &[
    case("100 loads and unloads", storms::hundred_loads),
    case("100 kills of the engine", storms::hundred_kills),
    case("soak of ten minutes", storms::soak),
    case("nothing was ejected in the long run", basics::no_ejections),
];

/// Loads under which other sched_ext schedulers were ejected, 15 s each.
pub(super) const SURVIVAL: &[Case] = &[
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
pub(super) const CROWDS: &[Case] = &[
    case("3,000 hogs", crowds::hogs),
    case("3,000 idle hogs beside 8 normal ones", crowds::idle_hogs),
    case("33,000 sleeping threads", crowds::sleepers),
    case("1,000 tasks with 1 % of a CPU", crowds::limited),
    case("4,200 groups", crowds::many_groups),
    case("groups that come and go", crowds::churn),
    case("nothing was ejected", basics::no_ejections),
];

/// Two sockets with a NUMA node each and two threads per core: here LLC domains matter.
pub(super) const TOPOLOGY: &[Case] = &[
    case("load", basics::load),
    case("every mode under load", basics::every_mode_under_load),
    case("work spreads over all LLC domains", topology::spreads),
    case("a CPU goes offline and returns", faults::cpu_hotplug),
    case("an LLC domain goes offline and returns", topology::domain_hotplug),
    case("every way to find an idle CPU", topology::placements),
    case("placement on fast and slow cores", cores::placement),
    case("nothing was ejected", basics::no_ejections),
];

pub(super) const STRESS: &[Case] =
    &[case("an hour of mixed stress", storms::hour), case("nothing was ejected", basics::no_ejections)];

/// Accidents.
pub(super) const SOAK: &[Case] =
    &[case("accidents in random order", soak::accidents), case("nothing was ejected", basics::no_ejections)];

/// The system bus goes, with everybody on it.
pub(super) const SYSTEM_BUS: &[Case] = &[
    case("dbus-daemon is restarted", system_bus::daemon_restarted),
    case("dbus-broker in its place is restarted", system_bus::broker_restarted),
    case("nothing was ejected", basics::no_ejections),
];

/// On CPUs that run at the same time.
pub(super) const PARALLEL: &[Case] = &[
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

pub(super) const UNSUPPORTED: &[Case] =
    &[case("boot", unsupported::boot), case("a clear refusal", unsupported::refusal)];

/// On a processor whose memory accesses are ordered less, and whose system calls are others.
pub(super) const OTHER_PROCESSOR: &[Case] = &[
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
pub(super) const PING_PONG: &[Case] = &[
    case("real-time tasks that take turns", ping_pong::for_ten_seconds),
    case("nothing was ejected", basics::no_ejections),
];

pub(super) const LONG_PING_PONG: &[Case] = &[
    case("real-time tasks that take turns for a minute", ping_pong::for_a_minute),
    case("nothing was ejected", basics::no_ejections),
];

pub(super) const LATENCY: &[Case] = &[case("latency, loading and switching times", latency::promises)];

/// Beside another way to change schedulers.
pub(super) const LOADER: &[Case] =
    &[case("a change of mode", loader::change_of_mode), case("nothing was ejected", basics::no_ejections)];

/// Somebody floods the bus.
pub(super) const FLOODS: &[Case] = &[
    case("floods of each method, dbus-daemon", floods::with_daemon),
    case("floods of each method, dbus-broker", floods::with_broker),
    case("nothing was ejected", basics::no_ejections),
];

/// The most CPUs that are supported may come, of which four are there.
pub(super) const MANY_CPUS: &[Case] =
    &[case("memory of the unit", hardening::memory), case("nothing was ejected", basics::no_ejections)];

/// The machine is cut off. One CPU, so that time need not be virtual.
pub(super) const POWER_CUTS: &[Case] = &[
    case("btrfs", power_cut::btrfs),
    case("XFS", power_cut::xfs),
    case("without synchronising the directory", power_cut::without_directory_sync),
];

/// Shares of the CPUs and frames of a game, in virtual time.
pub(super) const SHARES_AND_FRAMES: &[Case] = &[
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
pub(super) const LONG_SHARES_AND_FRAMES: &[Case] = &[case("a build beside a game", builds::build)];

/// Of [`SCHEDULING`] and [`SHARES_AND_FRAMES`], what depends on the kernel most: the newest one has these cases in the usual run, and all of them
/// in the long run.
pub(super) const USUAL_ON_NEWEST: &[&str] = &[
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

pub(super) const KILLS: &[Case] =
    &[case("200 kills of the engine", kills::two_hundred), case("nothing was ejected", basics::no_ejections)];

pub(super) const PACKAGES: &[Case] = &[
    case("boot", basics::boot),
    case("install", packages::install),
    case("the packages' own test", packages::smoke),
    case("the app chooses the mode", packages::app),
    case("enabled, then rebooted", packages::reboot),
    case("upgrade while running", packages::upgrade),
    case("purge", packages::purge),
];

pub(super) const PACKAGES_MALFORMED_BTF: &[Case] = &[
    case("install", packages::install_unsupported),
    case("the doctor", unsupported::doctor_with_malformed_btf),
    case("the app", packages::app_with_malformed_btf),
];

pub(super) const PACKAGES_WITHOUT_SCHED_EXT: &[Case] = &[
    case("install", packages::install_unsupported),
    case("the doctor", unsupported::doctor_without_sched_ext),
    case("the app", packages::app_without_sched_ext),
];
