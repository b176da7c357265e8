//! `scherzoctl foreground`: an application in front, for as long as this process lives.

use std::process::ExitCode;

use futures_util::StreamExt;
use scherzo_api::names::BUS_NAME;
use scherzo_i18n::gettext;
use tokio::signal::unix::{SignalKind, signal};
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};

use crate::client::CommandClient;
use crate::failure::{Failure, Kind};

/// Names the group until a signal says that it is enough, and again to a service that has restarted.
pub(crate) async fn keep(client: &CommandClient, group: &str) -> Result<ExitCode, Failure> {
    let dbus = DBusProxy::new(&client.bus).await?;
    let mut owners = dbus.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let kept = async {
        loop {
            client.change(|scheduler| async move { scheduler.set_foreground(group).await }).await?;
            until_restarted(&mut owners).await?;
        }
    };
    tokio::select! {
        ended = kept => ended,
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
    }
}

/// Waits until the service has ended and another one is there. The first call may have started it.
async fn until_restarted(owners: &mut NameOwnerChangedStream) -> Result<(), Failure> {
    let mut has_ended = false;
    while let Some(owner) = owners.next().await {
        let arguments = owner.args()?;
        has_ended |= arguments.old_owner().is_some();
        if has_ended && arguments.new_owner().is_some() {
            return Ok(());
        }
    }
    Err(Failure::new(Kind::Failure, gettext("The bus is gone.")))
}
