//! Faults that are made on purpose, in a guest of their own: a run that does not show each of them cannot be believed when it
//! shows none.

use anyhow::Result;

use scherzo_rig::guest::Guest;
use scherzo_rig::harness::{Case, Group};
use scherzo_rig::kernels::Role;
use scherzo_rig::qemu::GuestMachine;
use scherzo_rig::report::skipped;
use scherzo_rig::service::MOMENT;
use scherzo_rig::shell::Shell;

use crate::{case, group, latency};

const FAULTS: &[Case] = &[
    case("a test that is skipped", |_| Err(skipped("to see that it is told"))),
    case("a latency of 0.3", |_| latency::of_three_tenths()),
    case("a warning of the kernel", warn),
    case("a log that cannot be read", hide_the_log),
];

/// What a run of them says at its end, if their guest has needed a second boot as well.
pub const DELIBERATE_FAULTS_SHOWN: &[&str] = &[
    "\n  deliberate faults/a test that is skipped: to see that it is told\n",
    "\n  deliberate faults/a latency of 0.3: wake-up p99 is 0.30 of the default's",
    "\n  deliberate faults/a warning of the kernel: the kernel complained:",
    "\n  deliberate faults/a log that cannot be read: the kernel's log cannot be read",
    "\n  deliberate faults: it was booted a second time, since the first boot was made to fail\n",
    "\n0 passed, 3 failed, 1 skipped\n",
];

/// Not part of any plan: its failures are wanted.
#[must_use]
pub fn deliberate_faults() -> Group {
    group("deliberate faults", Role::Lts, &GuestMachine { nr_cpus: 1, ..GuestMachine::default() }, FAULTS)
}

/// As the kernel itself words it; it comes to its log and to the console as one of its own would.
fn warn(guest: &mut Guest) -> Result<()> {
    guest.check("echo '<4>WARNING: CPU: 0 PID: 1 at kernel/deliberate.c:1 fault+0x0/0x10' >/dev/kmsg", MOMENT).map(drop)
}

fn hide_the_log(guest: &mut Guest) -> Result<()> {
    guest.check("mount --bind /bin/false $(command -v dmesg)", MOMENT).map(drop)
}
