//! Waiting for a descriptor to become readable.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// A non-blocking socket of any kind that tokio watches.
///
/// Of tokio's types only this one takes any owned socket in safe code. Nothing but its readiness is used: reading and
/// writing are up to the caller.
#[derive(Debug)]
pub(crate) struct ReadySocket(UnixDatagram);

impl ReadySocket {
    /// Begins watching.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        UnixDatagram::from_std(socket.into()).map(Self)
    }

    /// Reads once there is something to read; `read` must not block.
    pub(crate) async fn read<T>(&self, mut read: impl FnMut(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        self.0.async_io(Interest::READABLE, || read(self.0.as_fd())).await
    }
}

impl AsFd for ReadySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
