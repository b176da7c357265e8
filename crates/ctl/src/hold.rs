//! `scherzoctl run` and `scherzoctl hold`: a mode for as long as something lasts.
//!
//! The service ties a hold to our connection, so it ends with this process, however that ends.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use futures_util::StreamExt;
use scherzo_api::names::BUS_NAME;
use scherzo_api::{HoldReleasedStream, SchedulerProxy};
use scherzo_i18n::{fill, gettext};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};

use crate::cli::{HoldOptions, RunOptions};
use crate::client::Client;
use crate::failure::{FAILURE, Failure};
use crate::output;

/// What shells answer if a command cannot be started, or is not there.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// What shells add to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

/// `scherzoctl run`: the command matters more than the hold.
pub(crate) async fn run(session: bool, options: &RunOptions) -> Result<ExitCode, Failure> {
    let held = async {
        let client = Client::connect(session).await?;
        Held::take(&client, &options.mode, &options.reason, &name_of(&options.command)).await
    };
    let mut held = match held.await {
        Ok(held) => Some(held),
        Err(failure) => {
            failure.report();
            None
        }
    };
    accompany(&mut held, &options.command).await
}

/// `scherzoctl hold`.
pub(crate) async fn hold(client: &Client, options: &HoldOptions) -> Result<ExitCode, Failure> {
    let application = if options.command.is_empty() { "scherzoctl".to_owned() } else { name_of(&options.command) };
    let mut held = Held::take(client, &options.mode, &options.reason, &application).await?;
    if !options.command.is_empty() {
        return accompany(&mut Some(held), &options.command).await;
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(own_failure)?;
    tokio::select! {
        released = held.last() => released.map(|()| ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
    }
}

/// The command's file name, as people know it.
fn name_of(command: &[OsString]) -> String {
    let name = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().chars().filter(|letter| !letter.is_control()).take(60).collect()
}

#[allow(clippy::needless_pass_by_value)] // As `map_err` passes it.
fn own_failure(error: std::io::Error) -> Failure {
    Failure::new(FAILURE, error.to_string())
}

/// Runs the command to its end.
async fn accompany(held: &mut Option<Held>, command: &[OsString]) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::SUCCESS) };
    // Ctrl-C reaches the command as well, which may have its own idea of it.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(own_failure)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(own_failure)?;
    let mut child = match tokio::process::Command::new(program).args(arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
            return Err(Failure::new(
                code,
                fill(&gettext("Cannot run {program}: {error}."), &[("program", &program.display()), ("error", &error)]),
            ));
        }
    };
    loop {
        tokio::select! {
            status = child.wait() => return status.map(code_of).map_err(own_failure),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => ask_to_end(&child),
            outcome = lasting(held) => {
                if let Err(failure) = outcome {
                    failure.report();
                }
                *held = None;
            }
        }
    }
}

/// The end of the hold; without one there is none.
async fn lasting(held: &mut Option<Held>) -> Result<(), Failure> {
    match held {
        Some(held) => held.last().await,
        None => std::future::pending().await,
    }
}

fn ask_to_end(child: &Child) {
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        // It may have ended this moment.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| SIGNALLED + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// A hold, renewed when the service restarts.
struct Held {
    scheduler: SchedulerProxy<'static>,
    asked: [String; 3],
    released: HoldReleasedStream,
    owners: NameOwnerChangedStream,
    /// The service that had granted it has ended.
    lost: bool,
}

impl Held {
    async fn take(client: &Client, mode: &str, reason: &str, application: &str) -> Result<Self, Failure> {
        let scheduler = client.scheduler().await?;
        let released = scheduler.receive_hold_released().await?;
        let dbus = DBusProxy::new(&client.bus).await?;
        let owners = dbus.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
        let asked = [mode, reason, application].map(str::to_owned);
        let held = Self { scheduler, asked, released, owners, lost: false };
        held.renew().await?;
        Ok(held)
    }

    async fn renew(&self) -> Result<(), Failure> {
        let [mode, reason, application] = &self.asked;
        self.scheduler.hold_mode(mode, reason, application).await?;
        Ok(())
    }

    /// Waits until someone else ends the hold.
    async fn last(&mut self) -> Result<(), Failure> {
        loop {
            tokio::select! {
                Some(_) = self.released.next() => {
                    output::remark(&gettext("The hold was released, because someone chose a mode."));
                    return Ok(());
                }
                Some(owner) = self.owners.next() => {
                    let arguments = owner.args()?;
                    // The first call may have started the service; then there is nothing to renew.
                    self.lost |= arguments.old_owner().is_some();
                    if self.lost && arguments.new_owner().is_some() {
                        self.renew().await?;
                        self.lost = false;
                    }
                }
                else => return Err(Failure::new(FAILURE, gettext("The bus is gone."))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_by_their_file() {
        assert_eq!(name_of(&["/usr/games/supertux".into(), "--fast".into()]), "supertux");
        assert_eq!(name_of(&["a\nb".into()]), "ab");
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(code_of(ExitStatus::from_raw(7 << 8)), ExitCode::from(7));
        assert_eq!(code_of(ExitStatus::from_raw(15)), ExitCode::from(143));
    }
}
