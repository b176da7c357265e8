//! `cargo xtask guest`: a guest for trying things.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use scherzo_rig::architecture::Architecture;
use scherzo_rig::guest::{Guest, show};
use scherzo_rig::image::copy_tree;
use scherzo_rig::product;
use scherzo_rig::qemu::{GuestMachine, GuestTime};
use scherzo_rig::rig::{Rig, announce};
use scherzo_rig::roots::System;

#[derive(Args)]
pub(crate) struct GuestOptions {
    /// The kernel, by the beginning of its version
    #[arg(long, default_value = "6.18")]
    kernel: String,
    /// The processor: amd64, or arm64, which is emulated
    #[arg(long, default_value = "amd64")]
    architecture: Architecture,
    /// Virtual CPUs
    #[arg(long, default_value_t = 2)]
    cpus: u32,
    /// Memory in MiB
    #[arg(long, default_value_t = 2048)]
    memory: u32,
    /// The guest's clock: real, virtual (counts instructions: slow, but independent of other load on the host), steady
    /// (real on KVM, else virtual: for storms of loads and unloads), or slow (real on KVM, else virtual on a slow
    /// computer: for hours)
    #[arg(long, default_value = "real")]
    time: GuestTime,
    /// Further -smp properties, such as sockets=2,cores=2
    #[arg(long, default_value = "")]
    topology: String,
    /// NUMA nodes, which share CPUs and memory evenly
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    nodes: u32,
    /// Further words for the kernel's command line
    #[arg(long, default_value = "")]
    cmdline: String,
    /// A directory that is copied over the guest's root
    #[arg(long)]
    payload: Option<PathBuf>,
    /// Build this checkout and install it in the guest
    #[arg(long)]
    put: bool,
    /// Seconds that a command may take, on real hardware; emulation gets a multiple
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Print the console log at the end
    #[arg(long)]
    console: bool,
    /// Read further commands from the terminal, a line each, until it ends
    #[arg(long)]
    shell: bool,
    /// Shell commands, run one after the other
    #[arg(last = true, default_value = "uname -a")]
    commands: Vec<String>,
}

pub(crate) fn run(checkout: &Path, options: &GuestOptions) -> Result<ExitCode> {
    let system = if options.architecture == Architecture::Arm64 { System::Arm64 } else { System::Small };
    let rig = Rig::prepare_with(checkout, system)?;
    announce(&rig);
    let kernel = rig.kernel_by_prefix(&options.kernel)?;
    let tree = tempfile::tempdir()?;
    if options.put {
        product::install(&rig.workspace()?, tree.path())?;
    }
    if let Some(dir) = &options.payload {
        ensure!(dir.is_dir(), "{} is not a directory", dir.display());
        copy_tree(dir, tree.path())?;
    }
    let payload = rig.payload(tree.path())?;
    let mut guest = rig.boot_patiently(kernel, &options.machine(), &payload)?;
    let command = options.commands.join(" ");
    let job = guest.spawn(&command)?;
    let output = guest.wait(job, Duration::from_secs(options.limit), show)?;
    if options.shell {
        serve_terminal(&mut guest, options.limit)?;
    }
    if options.console {
        println!("--- console ---\n{}", guest.console());
    }
    Ok(ExitCode::from(u8::try_from(output.status).unwrap_or(1)))
}

/// Runs each line that is typed as a command of its own.
fn serve_terminal(guest: &mut Guest, limit: u64) -> Result<()> {
    eprintln!("a shell command in each line; end with Ctrl-D");
    for line in std::io::stdin().lines() {
        let job = guest.spawn(&line?)?;
        let output = guest.wait(job, Duration::from_secs(limit), show)?;
        if output.status != 0 {
            eprintln!("(it ended with {})", output.status);
        }
    }
    Ok(())
}

impl GuestOptions {
    fn machine(&self) -> GuestMachine {
        GuestMachine {
            architecture: self.architecture,
            nr_cpus: self.cpus,
            memory_mib: self.memory,
            time: self.time,
            topology: self.topology.clone(),
            nr_nodes: self.nodes,
            cmdline: self.cmdline.clone(),
            ..GuestMachine::default()
        }
    }
}
