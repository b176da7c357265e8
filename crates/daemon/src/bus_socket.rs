//! The socket to the bus, on which calls wait for their turn before the library has them, and on which a turn ends when the bus has
//! taken the answer. See [`crate::callers`].

mod departures;
mod header;
mod incoming;
mod knocks;
mod outgoing;

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdUnixStream};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use rustix::net::sockopt::set_socket_send_buffer_size;
use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_api::names::INTERFACE;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;
use zbus::message::{Flags, Type};
use zbus::{Address, DBusError, Message};

use crate::callers::{Callers, Cost, Fate, WaitingCall};
use departures::{Departures, name_that_has_gone};
use header::{CallHeader, FLAGS};
use incoming::{Arrived, Incoming};
use knocks::Knocks;
use outgoing::{MessageWriter, UnsentRefusals};

/// The bus itself.
const BUS: &str = "org.freedesktop.DBus";
/// It says so of a connection that has gone.
const NO_OWNER: &str = "org.freedesktop.DBus.Error.NameHasNoOwner";
/// Methods that ask polkit.
const ASKING: [&str; 13] = [
    "SetEnabled",
    "SetMode",
    "SetModeFor",
    "SetPreemption",
    "SetEngine",
    "SetForeground",
    "SetHoldForeground",
    "HoldMode",
    "OpenHold",
    "ReleaseMode",
    "Configure",
    "ResetSettings",
    "InspectHolds",
];
/// So much of what is written the bus may leave unread. More of it would stand before the next user's answer.
const UNREAD_BYTES: usize = 4 << 10;

/// A connection to the bus, whose calls take turns.
#[derive(Debug)]
pub(crate) struct BusSocket {
    stream: UnixStream,
    callers: Arc<Callers>,
}

impl BusSocket {
    /// Connects.
    pub(crate) async fn connect(address: &Address, callers: Arc<Callers>) -> anyhow::Result<Self> {
        let Transport::Unix(transport) = address.transport() else { bail!("{address} is not a Unix socket") };
        let stream = match transport.path() {
            UnixSocket::File(path) => UnixStream::connect(path).await,
            UnixSocket::Abstract(name) => connect_to_abstract(name.as_encoded_bytes()),
            _ => bail!("{address} is not a socket that one can connect to"),
        };
        let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        set_socket_send_buffer_size(&stream, UNREAD_BYTES).context("the socket to the bus takes no limit")?;
        Ok(Self { stream, callers })
    }
}

fn connect_to_abstract(name: &[u8]) -> io::Result<UnixStream> {
    let stream = StdUnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

impl Socket for BusSocket {
    type ReadHalf = CallReader;
    type WriteHalf = AnswerWriter;

    fn split(self) -> Split<CallReader, AnswerWriter> {
        let (read, write) = self.stream.into_split();
        let writer = Arc::new(Mutex::new(MessageWriter::new(write)));
        let incoming = Incoming::new(read);
        let calls = CallReader {
            incoming,
            callers: Arc::clone(&self.callers),
            writer: Arc::clone(&writer),
            asked: HashMap::new(),
            departures: Departures::default(),
            knocks: Knocks::default(),
            refusals: UnsentRefusals::default(),
        };
        Split::new(calls, AnswerWriter { writer, callers: self.callers })
    }
}

/// What the library reads. It has a call only once its turn has come, and everything else at once.
#[derive(Debug)]
pub(crate) struct CallReader {
    incoming: Incoming,
    callers: Arc<Callers>,
    writer: Arc<Mutex<MessageWriter>>,
    /// Names whose users the bus has been asked for, by the number of the question.
    asked: HashMap<NonZeroU32, String>,
    departures: Departures,
    knocks: Knocks,
    refusals: UnsentRefusals,
}

impl CallReader {
    /// Refuses calls of users of whom too many wait already. That costs a look at each header, as it is done for each call of a flood.
    fn refuse_excess(&mut self) -> io::Result<()> {
        while let Some(message) = self.incoming.peek()? {
            let nr_bytes = message.len();
            let Some(call) = CallHeader::scan(message) else { break };
            let is_answered_from_template = !call.wants_answer || self.refusals.have_learnt(call.sender);
            if !is_answered_from_template || !self.callers.refuses(call.sender, cost(&call), nr_bytes) {
                break;
            }
            if call.wants_answer {
                self.refusals.repeat(call.sender, call.serial);
            }
            self.incoming.pass(nr_bytes);
        }
        Ok(())
    }

    /// The message that the library shall have, if this one is for it now.
    async fn sort(&mut self, mut arrived: Arrived, seq: u64) -> zbus::Result<Option<Message>> {
        let flags = arrived.bytes[FLAGS];
        if let Some(header) = CallHeader::scan(&arrived.bytes) {
            let call = waiting_call(&header, &arrived.bytes);
            return self.take(call, arrived.is_cut, seq).await;
        }
        // All calls are answered, so that it is seen when each of them is done; what is not wanted is not sent.
        arrived.bytes[FLAGS] &= !Flags::NO_REPLY_EXPECTED.bits();
        let message = parse(arrived.bytes, seq).await?;
        let header = message.header();
        match header.message_type() {
            Type::MethodCall => {
                let Some(of_call) = CallHeader::of(&header, flags) else { return Ok(Some(message)) };
                let call = waiting_call(&of_call, message.data());
                self.take(call, arrived.is_cut, seq).await
            }
            Type::Signal if arrived.is_cut => Ok(None),
            Type::Signal => {
                if let Some(name) = name_that_has_gone(&message, &header) {
                    self.callers.drop_calls_of(&name);
                }
                Ok(Some(message))
            }
            Type::MethodReturn | Type::Error => {
                let serial = header.reply_serial().filter(|_| header.sender().is_some_and(|sender| sender == BUS));
                if serial.is_some_and(|serial| self.knocks.note_answer(serial)) {
                    return Ok(None);
                }
                let Some(name) = serial.and_then(|serial| self.asked.remove(&serial)) else { return Ok(Some(message)) };
                if header.error_name().is_some_and(|error| error == NO_OWNER) {
                    self.callers.drop_calls_of(&name);
                }
                self.callers.know(name, message.body().deserialize().ok());
                Ok(None)
            }
        }
    }

    async fn take(&mut self, call: WaitingCall, is_cut: bool, seq: u64) -> zbus::Result<Option<Message>> {
        if is_cut {
            let problem = Error::LimitReached(gettext_noop("The request is too long.").into());
            if let Some(refusal) = refusal(call, &problem).await? {
                self.refusals.push(refusal.data().to_vec());
            }
            return Ok(None);
        }
        let fate = self.callers.come(call);
        self.meet(fate, seq).await
    }

    async fn meet(&mut self, fate: Fate, seq: u64) -> zbus::Result<Option<Message>> {
        match fate {
            Fate::Begins(call) => parse(call.bytes, seq).await.map(Some),
            Fate::Waits => Ok(None),
            Fate::WaitsForUser(name) => self.ask_for_user(name).await.map(|()| None),
            Fate::IsRefused(call) => {
                let problem = gettext_noop("Too many requests wait for an answer. Try again later.");
                let sender = call.sender.clone();
                if let Some(refusal) = refusal(call, &Error::LimitReached(problem.into())).await? {
                    self.refusals.learn(&sender, &refusal);
                    self.refusals.push(refusal.data().to_vec());
                }
                Ok(None)
            }
            Fate::ComesTooLate(call) => {
                let problem = gettext_noop("The service is being stopped. Try again when it is back.");
                if let Some(refusal) = refusal(call, &Error::Busy(problem.into())).await? {
                    self.writer.lock().await.send_message(&refusal).await?;
                }
                Ok(None)
            }
        }
    }

    async fn ask_for_user(&mut self, name: String) -> zbus::Result<()> {
        let question = Message::method_call("/org/freedesktop/DBus", "GetConnectionUnixUser")
            .destination(BUS)
            .interface(BUS)
            .build(&name)?;
        self.asked.insert(question.primary_header().serial_num(), name);
        self.writer.lock().await.send_message(&question).await
    }
}

#[async_trait]
impl ReadHalf for CallReader {
    async fn receive_message(
        &mut self,
        seq: u64,
        received: &mut Vec<u8>,
        _: &mut Vec<OwnedFd>,
    ) -> zbus::Result<Message> {
        self.incoming.append(received);
        loop {
            while let Some(fate) = self.callers.next() {
                if let Some(message) = self.meet(fate, seq).await? {
                    return Ok(message);
                }
            }
            self.refuse_excess()?;
            if let Some(arrived) = self.incoming.next()? {
                match self.sort(arrived, seq).await? {
                    Some(message) => return Ok(message),
                    None => continue,
                }
            }
            if let Some(request) = self.departures.request(self.callers.has_waiting(), Instant::now())? {
                self.writer.lock().await.send_message(&request).await?;
            }
            let is_flooded = self.callers.is_flooded();
            if let Some(question) = self.knocks.question(is_flooded, Instant::now())? {
                // Like a refusal, nothing waits for it to be written: if the bus takes nothing, it has something of ours to read.
                self.refusals.push(question.data().to_vec());
            }
            tokio::select! {
                read = self.incoming.read() => read?,
                sent = write(&self.writer, &mut self.refusals) => sent?,
                () = self.callers.change() => {}
                () = self.departures.due() => {}
                () = self.knocks.due(is_flooded) => {}
            }
        }
    }

    /// Nothing that the service is sent carries descriptors: the kernel closes those that somebody sends.
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.incoming.read_raw(buffer).await?, Vec::new()))
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

/// What a call takes.
fn cost(call: &CallHeader<'_>) -> Cost {
    match (call.interface, call.member) {
        (Some(INTERFACE), Some(member)) if ASKING.contains(&member) => Cost::Asking,
        (Some(INTERFACE), _) => Cost::Long,
        _ => Cost::Read,
    }
}

/// A call that all of the library's work waits for. It asks for an answer, so that it is seen when it is done; what is not wanted is
/// not sent.
fn waiting_call(header: &CallHeader<'_>, message: &[u8]) -> WaitingCall {
    let mut bytes = message.to_vec();
    bytes[FLAGS] &= !Flags::NO_REPLY_EXPECTED.bits();
    let CallHeader { sender, serial, wants_answer, .. } = *header;
    WaitingCall { sender: sender.to_owned(), serial, cost: cost(header), wants_answer, bytes }
}

/// What a call is answered with that is not taken, if it wants an answer.
async fn refusal(call: WaitingCall, problem: &Error) -> zbus::Result<Option<Message>> {
    if !call.wants_answer {
        return Ok(None);
    }
    problem.create_reply(&parse(call.bytes, 0).await?.header()).map(Some)
}

/// Writes refusals, if there are any.
async fn write(writer: &Mutex<MessageWriter>, refusals: &mut UnsentRefusals) -> io::Result<()> {
    if refusals.are_empty() {
        return std::future::pending().await;
    }
    writer.lock().await.send_refusals(refusals).await
}

async fn parse(mut bytes: Vec<u8>, seq: u64) -> zbus::Result<Message> {
    WholeMessage.receive_message(seq, &mut bytes, &mut Vec::new()).await
}

/// The library's parser of messages, for those that have come already: there is nothing more to read.
#[derive(Debug)]
struct WholeMessage;

#[async_trait]
impl ReadHalf for WholeMessage {
    async fn recvmsg(&mut self, _: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((0, Vec::new()))
    }
}

/// What the library writes.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    writer: Arc<Mutex<MessageWriter>>,
    callers: Arc<Callers>,
}

#[async_trait]
impl WriteHalf for AnswerWriter {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        let header = message.header();
        let (Some(name), Some(serial)) = (header.destination(), header.reply_serial()) else {
            return self.writer.lock().await.send_message(message).await;
        };
        let is_wanted = self.callers.is_wanted(name, serial.get());
        let sent = if is_wanted { self.writer.lock().await.send_message(message).await } else { Ok(()) };
        self.callers.end_turn(name, serial.get());
        sent
    }

    async fn sendmsg(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.writer.lock().await.sendmsg(bytes, fds).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.close().await
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
