//! The socket between daemon and engine: one packet, one message, descriptors alongside.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::message::{MESSAGE_BYTES, Message};

/// Most descriptors a packet may carry.
pub const MAX_FDS: usize = 2;

/// A connected pair, close-on-exec and non-blocking on both ends.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends one packet with up to [`MAX_FDS`] descriptors.
pub fn send(socket: impl AsFd, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let sent = sendmsg(socket, &[io::IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == MESSAGE_BYTES { Ok(()) } else { Err(io::Error::new(io::ErrorKind::WriteZero, "short packet")) }
}

/// What [`receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A whole packet.
    Packet(Box<Message>, Vec<OwnedFd>),
    /// The other end is gone.
    Closed,
}

/// Receives one packet; `WouldBlock` if there is none.
pub fn receive(socket: impl AsFd) -> io::Result<Received> {
    let mut packet = Box::new([0; MESSAGE_BYTES]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [io::IoSliceMut::new(&mut packet[..])],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    );
    let got = match received {
        // It left without having read everything.
        Err(Errno::CONNRESET) => return Ok(Received::Closed),
        received => received?,
    };
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    match got.bytes {
        0 => Ok(Received::Closed),
        MESSAGE_BYTES if !got.flags.contains(ReturnFlags::TRUNC) => Ok(Received::Packet(packet, fds)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "packet of the wrong size")),
    }
}

/// Receives one packet into memory of the caller's, without descriptors and without allocating.
/// `Ok(None)` means that the other end is gone.
pub fn receive_into(socket: impl AsFd, packet: &mut Message) -> io::Result<Option<()>> {
    let (_, bytes) = rustix::net::recv(socket, &mut packet[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
    match bytes {
        0 => Ok(None),
        MESSAGE_BYTES => Ok(Some(())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "packet of the wrong size")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToEngine;

    #[test]
    fn packets_and_descriptors_arrive() {
        let (a, b) = pair().unwrap();
        let message = ToEngine::Refresh { seq: 7 }.encode();
        send(&a, &message, &[a.as_fd(), b.as_fd()]).unwrap();
        let Received::Packet(packet, fds) = receive(&b).unwrap() else { panic!("open") };
        assert_eq!(ToEngine::decode(&packet[..]), Ok(ToEngine::Refresh { seq: 7 }));
        assert_eq!(fds.len(), 2);
    }

    #[test]
    fn the_end_is_seen() {
        let (a, b) = pair().unwrap();
        assert_eq!(receive(&b).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(a);
        assert!(matches!(receive(&b).unwrap(), Received::Closed));
        assert_eq!(receive_into(&b, &mut [0; MESSAGE_BYTES]).unwrap(), None);
    }

    #[test]
    fn the_end_is_seen_if_something_was_never_read() {
        let (a, b) = pair().unwrap();
        send(&b, &ToEngine::Unload.encode(), &[]).unwrap();
        drop(a);
        assert!(matches!(receive(&b).unwrap(), Received::Closed));
    }

    #[test]
    fn short_packets_are_refused() {
        let (a, b) = pair().unwrap();
        rustix::net::send(&a, b"short", SendFlags::empty()).unwrap();
        assert_eq!(receive(&b).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
