//! The command line of `scherzod`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Parser;
use scherzo_api::names::{BUS_NAME, OBJECT_PATH};
use scherzo_host::Root;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zbus::fdo::RequestNameFlags;
use zbus::{Address, Connection};

use crate::authorize::Polkit;
use crate::bus::BusInterface;
use crate::bus_thread;
use crate::engine::Engine;
use crate::engine::real::{Real, installed_path};
use crate::engine::simulated::{self, Simulated, Tree};
use crate::input::{Input, NR_INPUTS};
use crate::kernel::Uevents;
use crate::log;
use crate::log_control::LogControl;
use crate::manager;
use crate::power;
use crate::profile;
use crate::rcu;
use crate::session;
use crate::shell::{MainLoop, Parts};

/// Exit code for "another instance runs".
const EXIT_NAME_TAKEN: u8 = 3;

/// The Scherzo service: loads, watches and switches the CPU scheduler, as org.scherzo.Scheduler1 on the system bus.
///
/// Systemd starts it; `scherzoctl` is for people. Exit codes: 0 ended as asked, 1 failure, 2 wrong usage, 3 another
/// instance runs.
#[derive(Debug, Parser)]
#[command(name = "scherzod", version)]
pub struct Options {
    /// For developing clients: pretend to have an engine and a kernel, and serve on the session bus
    #[arg(long)]
    simulate: bool,

    /// Serve on the bus with this D-Bus address instead
    #[arg(long, value_name = "ADDRESS", requires = "simulate")]
    address: Option<String>,

    /// Directory of the pretended kernel's files, used as it is
    #[arg(long, value_name = "DIRECTORY", requires = "simulate", hide = true)]
    simulate_root: Option<PathBuf>,

    /// Ask polkit about everyone, also about the user who simulates
    #[arg(long, requires = "simulate", hide = true)]
    simulate_polkit: bool,

    /// Log every event and what follows from it
    #[arg(long, short)]
    verbose: bool,
}

/// Runs the service with these options.
#[must_use]
pub fn main(options: &Options) -> ExitCode {
    log::start(options.verbose);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let served = if options.simulate { runtime.block_on(simulate(options)) } else { runtime.block_on(serve_really()) };
    // A disk that hangs is not waited for.
    runtime.shutdown_background();
    match served {
        Ok(code) => code,
        Err(problem) => {
            error!("{problem:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve_really() -> anyhow::Result<ExitCode> {
    let (inputs, inbox) = mpsc::channel(NR_INPUTS);
    let trusted_uid = Some(0);
    let callers = Arc::default();
    let address = Address::system().context("the address of the system bus cannot be read")?;
    let bus = bus_thread::connect(address, Arc::clone(&callers), LogControl { trusted_uid })
        .await
        .context("cannot reach the system bus; is dbus running?")?;
    follow_uevents(inputs.clone());
    let path = installed_path().context("cannot find out where this program is installed")?;
    let engine = Real::new(path, inputs.clone());
    let parts = Parts { root: Root::default(), set_policy: rcu::set_policy, engine, bus, callers, inputs };
    serve(parts, inbox, Polkit::trusting(trusted_uid)).await
}

async fn simulate(options: &Options) -> anyhow::Result<ExitCode> {
    let address = match &options.address {
        Some(address) => address.as_str().try_into(),
        None => Address::session(),
    };
    let address = address.context("the address of the bus cannot be read")?;
    let callers = Arc::default();
    let own_uid = rustix::process::geteuid().as_raw();
    let trusted_uid = (!options.simulate_polkit).then_some(own_uid);
    let bus = bus_thread::connect(address, Arc::clone(&callers), LogControl { trusted_uid })
        .await
        .context("cannot reach the bus; give its address with --address")?;
    let scratch = tempfile::tempdir().context("cannot make a directory for the simulated kernel")?;
    let (root, tree) = match &options.simulate_root {
        Some(directory) => (Root::new(directory), Tree::at(Root::new(directory))),
        None => (Root::new(scratch.path()), Tree::plant(Root::new(scratch.path()))?),
    };
    let (inputs, inbox) = mpsc::channel(NR_INPUTS);
    let engine = Simulated::new(tree, inputs.clone());
    info!("simulating: nothing on this machine is changed");
    let parts = Parts { root, set_policy: simulated::set_policy, engine, bus, callers, inputs };
    serve(parts, inbox, Polkit::trusting(trusted_uid)).await
}

/// Serves on the bus of `parts` until told to end, and returns the exit code.
pub async fn serve<E: Engine>(
    parts: Parts<E>,
    inbox: mpsc::Receiver<Input>,
    authorizer: Polkit,
) -> anyhow::Result<ExitCode> {
    let (bus, inputs, root) = (parts.bus.clone(), parts.inputs.clone(), parts.root.clone());
    let callers = Arc::clone(&parts.callers);
    let (shell, published) = MainLoop::new(parts)?;
    let (requests, calls) = mpsc::channel(NR_INPUTS);
    let service = BusInterface {
        inputs: requests,
        published,
        root,
        diagnosis: tokio::sync::Mutex::default(),
        callers: Arc::clone(&callers),
        authorizer: Arc::new(authorizer),
    };
    bus.object_server().at(OBJECT_PATH, service).await?;
    // Before anybody can know that the service is there: a signal that came earlier would kill it.
    await_the_end(&bus, inputs.clone())?;
    // Only the owner of the name may touch the host. Calls that come meanwhile wait for the loop to run.
    match bus.request_name_with_flags(BUS_NAME, RequestNameFlags::DO_NOT_QUEUE).await {
        Ok(_) => {}
        Err(zbus::Error::NameTaken) => {
            error!("another scherzod already serves {BUS_NAME} on this bus; stop it first, or leave it to its work");
            return Ok(ExitCode::from(EXIT_NAME_TAKEN));
        }
        Err(problem) => bail!("may not own {BUS_NAME}; run as root with the bus policy installed: {problem}"),
    }
    manager::ready();
    let mut followers = power::follow(&bus, &inputs);
    followers.spawn(profile::keep(bus.clone(), inputs.clone(), shell.hold_profile()));
    followers.spawn(session::await_first(bus.clone(), inputs.clone()));
    shell.run(inbox, calls).await.context("cannot make a timer")?;
    // Tasks that still use the bus would keep it open.
    followers.shutdown().await;
    callers.end();
    let lost = bus.is_closed();
    bus.graceful_shutdown().await;
    Ok(if lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn follow_uevents(inputs: mpsc::Sender<Input>) {
    let uevents = match Uevents::listen() {
        Ok(uevents) => uevents,
        Err(error) => {
            warn!("cannot hear of changes in the kernel at once, only every few seconds while running: {error}");
            return;
        }
    };
    tokio::spawn(
        async move { while uevents.changed().await.is_ok() && inputs.send(Input::KernelChanged).await.is_ok() {} },
    );
}

fn await_the_end(bus: &Connection, inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let reloads = inputs.clone();
    tokio::spawn(async move { while hangup.recv().await.is_some() && reloads.send(Input::Reload).await.is_ok() {} });
    let bus = bus.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!("asked to end: unloading first"),
            _ = interrupt.recv() => info!("interrupted: unloading first"),
            () = bus.closed() => error!("the bus is gone: unloading, then ending"),
        }
        let _ = inputs.send(Input::Shutdown).await;
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const MANUAL: &str = include_str!("../../../data/scherzod.8.in");

    #[test]
    fn the_manual_names_every_option_and_exit_code() {
        for option in Options::command().get_arguments().filter(|option| !option.is_hide_set()) {
            let name = option.get_long().unwrap();
            assert!(MANUAL.contains(&format!("Fl -{name}")), "--{name}");
        }
        for code in [0, 1, 2, EXIT_NAME_TAKEN] {
            assert!(MANUAL.contains(&format!("\n.It {code}\n")), "{code}");
        }
    }
}
