//! `cargo xtask demo`: the main job, set up from nothing and shown.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use scherzo_cases::demo;
use scherzo_rig::cache::Cache;
use scherzo_rig::kernels::Role;
use scherzo_rig::product;
use scherzo_rig::qemu::{Accel, GuestMachine, GuestTime};
use scherzo_rig::rig::{Rig, announce};

use crate::native::{self, Installation};

const NR_CPUS: u32 = 4;

#[derive(Args)]
pub(crate) struct DemoOptions {
    /// Show it on this machine, whose kernel must have sched_ext, instead of in a guest; asks first
    #[arg(long)]
    native: bool,
}

pub(crate) fn run(checkout: &Path, options: &DemoOptions) -> Result<ExitCode> {
    if options.native { show_here(checkout) } else { show_in_guest(checkout) }?;
    println!("\nEverything shown above happened and was checked.");
    Ok(ExitCode::SUCCESS)
}

fn show_in_guest(checkout: &Path) -> Result<()> {
    let rig = Rig::prepare(checkout)?;
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    announce(&rig);
    let kernel = rig.kernel(Role::Lts).or_else(|_| rig.kernel(Role::Newest))?;
    let payload = rig.payload(tree.path())?;
    // In emulation only a clock that counts instructions gives meaningful figures.
    let time = if rig.accel(kernel)? == Accel::Kvm { GuestTime::Real } else { GuestTime::Virtual };
    let machine = GuestMachine { nr_cpus: NR_CPUS, time, ..GuestMachine::default() };
    let mut guest = rig.boot_patiently(kernel, &machine, &payload)?;
    demo::show(&mut guest)?;
    if time == GuestTime::Virtual {
        println!(
            "\nThis guest is emulated: its {NR_CPUS} CPUs take turns, so that a mode that leaves some of them idle loses \
             no throughput here, and no latency is shorter than a turn."
        );
    }
    Ok(())
}

/// Asks, installs, shows, and removes what was installed.
fn show_here(checkout: &Path) -> Result<()> {
    ensure!(
        native::has_sched_ext(),
        "this machine's kernel has no sched_ext: leave --native out, and a guest with one is made"
    );
    native::ensure_terminal()?;
    native::ensure_ready()?;
    let tree = tempfile::tempdir()?;
    native::build_product(&Cache::open()?, checkout, tree.path())?;
    let installation = Installation::of(tree.path())?;
    let agreed = installation.is_agreed("It runs for about two minutes with two CPU hogs per CPU")?;
    ensure!(agreed, "nothing was changed on this machine, and nothing shown");
    installation.during(|mut shell| demo::show(&mut shell))
}
