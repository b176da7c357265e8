//! Holds that last as long as a descriptor, which can be handed on, as logind's inhibitors.

use std::io;
use std::os::fd;

use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use zbus::OwnedFd;

use crate::input::Input;
use scherzo_supervisor::Published;

/// A pipe: the service keeps the end to write to, and sees when nobody has the other one any more. Nothing is written.
pub(super) struct DescriptorTie {
    ours: pipe::Sender,
    theirs: fd::OwnedFd,
}

impl DescriptorTie {
    pub(super) fn new() -> io::Result<Self> {
        let (ours, theirs) = pipe::pipe()?;
        Ok(Self { ours, theirs: theirs.into_blocking_fd()? })
    }

    /// Releases the hold when the descriptor that this gives has been closed everywhere; no longer watches for that once the
    /// hold has been released otherwise.
    pub(super) fn watch(
        self,
        cookie: u32,
        mut published: watch::Receiver<Published>,
        inputs: mpsc::Sender<Input>,
    ) -> OwnedFd {
        let Self { ours, theirs } = self;
        tokio::spawn(async move {
            let is_released = |now: &Published| !now.holds.iter().any(|hold| hold.cookie == cookie);
            let is_closed = tokio::select! {
                released = published.wait_for(is_released) => released.is_err(),
                _ = ours.ready(Interest::ERROR) => true,
            };
            if is_closed {
                // A service that ends has no holds.
                let _ = inputs.send(Input::HoldClosed(cookie)).await;
            }
        });
        theirs.into()
    }
}
