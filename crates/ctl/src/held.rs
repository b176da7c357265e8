//! A hold of a mode, for as long as this process lives.
//!
//! The service ties a hold to our connection, so it ends with this process, however that ends.

use futures_util::StreamExt;
use scherzo_api::names::BUS_NAME;
use scherzo_api::{HoldReleasedStream, SchedulerProxy};
use scherzo_i18n::gettext;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};

use crate::client::CommandClient;
use crate::failure::{Failure, Kind};

/// What is asked of the service.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) mode: String,
    pub(crate) reason: String,
    pub(crate) application: String,
    /// The path of the control group that is in front meanwhile.
    pub(crate) foreground: Option<String>,
    /// A person may be asked for a password.
    pub(crate) may_ask: bool,
}

/// A hold, renewed when the service restarts.
pub(crate) struct Held {
    scheduler: SchedulerProxy<'static>,
    wanted: Wanted,
    released: HoldReleasedStream,
    owners: NameOwnerChangedStream,
    /// The service that had granted it has ended.
    lost: bool,
    cookie: u32,
}

impl Held {
    /// Answers when the service has granted it.
    pub(crate) async fn take(client: &CommandClient, wanted: Wanted) -> Result<Self, Failure> {
        let scheduler = client.scheduler().await?;
        let released = scheduler.receive_hold_released().await?;
        let dbus = DBusProxy::new(&client.bus).await?;
        let owners = dbus.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
        let mut held = Self { scheduler, wanted, released, owners, lost: false, cookie: 0 };
        held.renew().await?;
        Ok(held)
    }

    async fn renew(&mut self) -> Result<(), Failure> {
        let Wanted { mode, reason, application, may_ask, .. } = &self.wanted;
        self.cookie = if *may_ask {
            self.scheduler.hold_mode(mode, reason, application).await?
        } else {
            self.scheduler.hold_mode_quietly(mode, reason, application).await?
        };
        let named = self.name_foreground().await;
        if named.is_err() {
            // All that was asked for, or nothing.
            self.release().await;
        }
        named
    }

    async fn name_foreground(&self) -> Result<(), Failure> {
        let Some(group) = &self.wanted.foreground else { return Ok(()) };
        if self.wanted.may_ask {
            self.scheduler.set_hold_foreground(self.cookie, group).await?;
        } else {
            self.scheduler.set_hold_foreground_quietly(self.cookie, group).await?;
        }
        Ok(())
    }

    /// Gives it back. One that is gone already needs no more.
    pub(crate) async fn release(&self) {
        let _ = self.scheduler.release_mode(self.cookie).await;
    }

    /// Waits until someone releases the hold by choosing a mode. The future must not be dropped and started again: a
    /// restart of the service that it has just noticed would be forgotten, and the hold not renewed.
    pub(crate) async fn last(&mut self) -> Result<(), Failure> {
        loop {
            tokio::select! {
                Some(_) = self.released.next() => return Ok(()),
                Some(owner) = self.owners.next() => {
                    let arguments = owner.args()?;
                    // The first call may have started the service; then there is nothing to renew.
                    self.lost |= arguments.old_owner().is_some();
                    if self.lost && arguments.new_owner().is_some() {
                        self.renew().await?;
                        self.lost = false;
                    }
                }
                else => return Err(Failure::new(Kind::Failure, gettext("The bus is gone."))),
            }
        }
    }
}
