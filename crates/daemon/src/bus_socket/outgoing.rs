//! What goes to the bus: messages, each as a whole, and refusals, which nobody waits for.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use zbus::Message;
use zbus::connection::socket::WriteHalf;
use zbus::export::async_trait::async_trait;

use super::header::reply_serial_offset;

/// The most descriptors that an answer carries.
const MAX_FDS: usize = 4;
/// Refusals that the bus has not taken yet. Beyond that calls are dropped without an answer.
const MAX_UNSENT: usize = 256;
/// So many are written at a time: about as many as the bus reads at a time.
const NR_AT_A_TIME: usize = 16;
/// Senders whose refusals are kept as templates: more than a flood has connections, usually.
const MAX_TEMPLATES: usize = 64;

/// Writes messages, each as a whole.
#[derive(Debug)]
pub(super) struct MessageWriter {
    stream: OwnedWriteHalf,
    /// The rest of a refusal of which the bus has taken the beginning.
    rest: Vec<u8>,
}

impl MessageWriter {
    pub(super) fn new(stream: OwnedWriteHalf) -> Self {
        Self { stream, rest: Vec::new() }
    }

    fn stream(&self) -> &UnixStream {
        self.stream.as_ref()
    }

    /// Writes some of them once the bus takes any. Those that it has taken are never written again, also if this is not waited for
    /// to its end.
    pub(super) async fn send_refusals(&mut self, refusals: &mut UnsentRefusals) -> io::Result<()> {
        self.finish().await?;
        let parts: Vec<_> =
            refusals.unsent.iter().take(NR_AT_A_TIME).map(|refusal| io::IoSlice::new(refusal)).collect();
        let stream = self.stream();
        let mut nr_written = stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), &parts, &[])).await?;
        while nr_written > 0 {
            let Some(mut refusal) = refusals.unsent.pop_front() else { break };
            let nr_of_it = nr_written.min(refusal.len());
            nr_written -= nr_of_it;
            refusal.drain(..nr_of_it);
            self.rest = refusal;
        }
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            let (stream, rest) = (self.stream(), [io::IoSlice::new(&self.rest)]);
            let nr_written = stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), &rest, &[])).await?;
            self.rest.drain(..nr_written);
        }
        Ok(())
    }
}

#[async_trait]
impl WriteHalf for MessageWriter {
    async fn sendmsg(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.finish().await?;
        let stream = self.stream();
        stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), &[io::IoSlice::new(bytes)], fds)).await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self.stream().as_fd(), Shutdown::Both)?)
    }
}

fn send(stream: BorrowedFd<'_>, parts: &[io::IoSlice<'_>], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    Ok(rustix::net::sendmsg(stream, parts, &mut ancillary, SendFlags::NOSIGNAL)?)
}

/// Refusals that the bus has not taken yet.
#[derive(Debug, Default)]
pub(super) struct UnsentRefusals {
    unsent: VecDeque<Vec<u8>>,
    /// Of senders that have been refused before.
    templates: HashMap<String, Template>,
}

/// A refusal, but for the number of the call.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    serial_at: usize,
}

impl UnsentRefusals {
    pub(super) fn are_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Takes one to be sent, unless too many wait for that.
    pub(super) fn push(&mut self, refusal: Vec<u8>) {
        if self.unsent.len() < MAX_UNSENT {
            self.unsent.push_back(refusal);
        }
    }

    /// Keeps one as the template of those that the same sender gets.
    pub(super) fn learn(&mut self, sender: &str, refusal: &Message) {
        let bytes = refusal.data().to_vec();
        let Some(serial_at) = reply_serial_offset(&bytes) else { return };
        if self.templates.len() >= MAX_TEMPLATES {
            self.templates.clear();
        }
        self.templates.insert(sender.to_owned(), Template { bytes, serial_at });
    }

    /// Whether [`Self::repeat`] can refuse a call of this sender.
    pub(super) fn have_learnt(&self, sender: &str) -> bool {
        self.templates.contains_key(sender)
    }

    /// Refuses another call of a sender. Nobody answers a refusal, so that all of them may have the number of the first.
    pub(super) fn repeat(&mut self, sender: &str, serial: u32) {
        if self.unsent.len() >= MAX_UNSENT {
            return;
        }
        let Some(Template { bytes, serial_at }) = self.templates.get(sender) else { return };
        let mut refusal = bytes.clone();
        refusal[*serial_at..serial_at + size_of::<u32>()].copy_from_slice(&serial.to_ne_bytes());
        self.unsent.push_back(refusal);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use rustix::net::sockopt::set_socket_send_buffer_size;
    use tokio::time::timeout;
    use zbus::message::Type;

    use super::super::incoming::Incoming;
    use super::super::parse;
    use super::*;

    fn call() -> Message {
        Message::method_call("/org/example", "Method").sender(":1.7").build(&()).unwrap()
    }

    fn refusal(call: &Message, text: &str) -> Message {
        Message::error(&call.header(), "org.example.Error").build(&text).unwrap()
    }

    #[test]
    fn refusals_are_repeated_for_other_calls_of_the_sender() {
        let mut refusals = UnsentRefusals::default();
        let [first, second] = [call(), call()];
        refusals.learn(":1.7", &refusal(&first, "No."));
        assert!(refusals.have_learnt(":1.7") && !refusals.have_learnt(":1.8"));
        refusals.repeat(":1.8", 1);
        assert!(refusals.are_empty());
        refusals.repeat(":1.7", second.primary_header().serial_num().get());
        let repeated = parse(refusals.unsent.pop_front().unwrap(), 0).now_or_never().unwrap().unwrap();
        let (header, expected) = (repeated.header(), refusal(&second, "No."));
        assert_eq!(header.reply_serial(), expected.header().reply_serial());
        assert_eq!((header.message_type(), header.destination()), (Type::Error, expected.header().destination()));
        assert_eq!(repeated.body().deserialize::<String>().unwrap(), "No.");
    }

    #[test]
    fn refusals_that_the_bus_does_not_take_are_few() {
        let mut refusals = UnsentRefusals::default();
        let refused = refusal(&call(), "No.");
        refusals.learn(":1.7", &refused);
        for serial in 1..1000 {
            refusals.repeat(":1.7", serial);
            refusals.push(refused.data().to_vec());
        }
        assert_eq!(refusals.unsent.len(), MAX_UNSENT);
        for nr_senders in 0..2 * MAX_TEMPLATES {
            refusals.learn(&format!(":2.{nr_senders}"), &refused);
        }
        assert!(refusals.templates.len() <= MAX_TEMPLATES);
    }

    #[tokio::test]
    async fn messages_are_whole_though_the_bus_takes_parts() {
        let (here, there) = UnixStream::pair().unwrap();
        set_socket_send_buffer_size(&here, 4096).unwrap();
        let ((_read, write), (bus, _write)) = (here.into_split(), there.into_split());
        let (mut writer, mut refusals) = (MessageWriter::new(write), UnsentRefusals::default());
        let refused = refusal(&call(), &"x".repeat(3000));
        (0..10).for_each(|_| refusals.push(refused.data().to_vec()));
        while timeout(Duration::from_millis(50), writer.send_refusals(&mut refusals)).await.is_ok() {}
        assert!(!refusals.are_empty(), "the bus took all of them");
        let answer = Message::method_return(&call().header()).build(&"answer").unwrap();
        let last = answer.data().to_vec();
        let sending = tokio::spawn(async move {
            writer.send_message(&answer).await.unwrap();
            writer
        });
        let mut incoming = Incoming::new(bus);
        let mut nr_refused = 0;
        loop {
            match incoming.next().unwrap() {
                Some(arrived) if arrived.bytes == last => break,
                Some(arrived) => {
                    assert_eq!(arrived.bytes, *refused.data().bytes());
                    nr_refused += 1;
                }
                None => incoming.read().await.unwrap(),
            }
        }
        assert!((1..10).contains(&nr_refused), "{nr_refused}");
        drop(sending.await.unwrap());
    }
}
