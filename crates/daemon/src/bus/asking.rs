//! From a call to its answer: who calls is let in, polkit is asked, then the loop.

use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_api::names::{ACTION_HOLD_MODE, ACTION_SET_FOREGROUND};
use scherzo_supervisor::{Caller, ForegroundGroup, HoldRequest, Published, Request};
use tokio::sync::oneshot;
use zbus::Connection;
use zbus::message::Header;

use super::BusInterface;
use super::arguments::{error_of, right_to_change};
use crate::config::Change;
use crate::foreground;
use crate::input::{Answer, HistoryEntry, Input};

impl BusInterface {
    /// Has settings changed, if the caller may do that.
    pub(super) async fn change_settings(
        &self,
        changes: Vec<Change>,
        call: &Header<'_>,
        bus: &Connection,
    ) -> Result<(), Error> {
        let caller = self.callers.caller(bus, call).await?;
        self.authorizer.check(bus, call, right_to_change(&changes)).await?;
        let (caller, (reply, answer)) = (caller.clone(), oneshot::channel());
        self.inputs.send(Input::Configure { caller, changes, reply }).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    pub(super) async fn history(&self, caller: &Caller, nr_entries: u32) -> Result<Vec<HistoryEntry>, Error> {
        match self.ask(caller, Request::GetHistory(nr_entries)).await? {
            Answer::History(entries) => Ok(entries),
            _ => Ok(Vec::new()),
        }
    }

    /// Has a call answered that anybody may make.
    pub(super) async fn ask_freely(
        &self,
        bus: &Connection,
        call: &Header<'_>,
        request: Request,
    ) -> Result<Answer, Error> {
        self.ask(&self.callers.caller(bus, call).await?, request).await
    }

    /// Has a call answered if polkit allows it.
    pub(super) async fn ask_with(
        &self,
        bus: &Connection,
        call: &Header<'_>,
        action: &str,
        request: Request,
    ) -> Result<Answer, Error> {
        let caller = self.callers.caller(bus, call).await?;
        self.authorizer.check(bus, call, action).await?;
        self.ask(&caller, request).await
    }

    pub(super) async fn ask_to_hold(
        &self,
        bus: &Connection,
        call: &Header<'_>,
        wanted: HoldRequest,
    ) -> Result<u32, Error> {
        wanted.check().map_err(error_of)?;
        match self.ask_with(bus, call, ACTION_HOLD_MODE, Request::HoldMode(wanted)).await? {
            Answer::Hold(cookie) => Ok(cookie),
            _ => Err(Error::Busy(gettext_noop("The hold was not granted. Try again.").into())),
        }
    }

    /// Has a control group put in front, or none for an empty path, which takes no right.
    pub(super) async fn ask_for_foreground(
        &self,
        bus: &Connection,
        call: &Header<'_>,
        path: String,
        request: impl FnOnce(Option<ForegroundGroup>) -> Request,
    ) -> Result<(), Error> {
        let caller = self.callers.caller(bus, call).await?;
        let found = self.find_foreground(path, caller.uid).await?;
        if found.is_some() {
            self.authorizer.check(bus, call, ACTION_SET_FOREGROUND).await?;
        }
        self.ask(&caller, request(found)).await.map(drop)
    }

    /// The control group that a program of this user names; none for an empty path.
    async fn find_foreground(&self, path: String, uid: Option<u32>) -> Result<Option<ForegroundGroup>, Error> {
        if path.is_empty() {
            return Ok(None);
        }
        let root = self.root.clone();
        let looked = tokio::task::spawn_blocking(move || foreground::find(&root, &path, uid)).await;
        looked.map_err(|_| stopping())?.map(Some)
    }

    pub(super) async fn ask(&self, caller: &Caller, request: Request) -> Result<Answer, Error> {
        let (caller, (reply, answer)) = (caller.clone(), oneshot::channel());
        self.inputs.send(Input::Request { caller, request, reply }).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Has the loop answer what the supervisor has no part in.
    pub(super) async fn read<T>(&self, input: impl FnOnce(oneshot::Sender<T>) -> Input) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.inputs.send(input(reply)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())
    }

    pub(super) fn published<T>(&self, read: impl Fn(&Published) -> T) -> T {
        read(&self.published.borrow())
    }
}

pub(super) fn stopping() -> Error {
    Error::Busy(gettext_noop("The service is being stopped. Try again when it is back.").into())
}
