//! The socket to the bus, on which calls wait for their turn before the library has them, and on which a turn ends when the bus has
//! taken the answer. See [`crate::callers`].

mod departures;
mod incoming;

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdUnixStream};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_api::names::INTERFACE;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Mutex;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;
use zbus::message::{Flags, Header, Type};
use zbus::{Address, DBusError, Message};

use crate::callers::{Callers, Cost, Fate, WaitingCall};
use departures::{Departures, name_that_has_gone};
use incoming::{Arrived, Incoming};

/// Where a message has its flags.
const FLAGS: usize = 2;
/// The most descriptors that an answer carries.
const MAX_FDS: usize = 4;
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
        let writer = Arc::new(Mutex::new(MessageWriter(write)));
        let incoming = Incoming::new(read);
        let calls = CallReader {
            incoming,
            callers: Arc::clone(&self.callers),
            writer: Arc::clone(&writer),
            asked: HashMap::new(),
            departures: Departures::default(),
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
}

impl CallReader {
    /// The message that the library shall have, if this one is for it now.
    async fn sort(&mut self, mut arrived: Arrived, seq: u64) -> zbus::Result<Option<Message>> {
        let wants_answer = arrived.bytes[FLAGS] & Flags::NO_REPLY_EXPECTED.bits() == 0;
        // All calls are answered, so that it is seen when each of them is done; what is not wanted is not sent.
        arrived.bytes[FLAGS] &= !Flags::NO_REPLY_EXPECTED.bits();
        let message = parse(arrived.bytes, seq).await?;
        let header = message.header();
        match header.message_type() {
            Type::MethodCall => {}
            Type::Signal if arrived.is_cut => return Ok(None),
            Type::Signal => {
                if let Some(name) = name_that_has_gone(&message, &header) {
                    self.callers.drop_calls_of(&name);
                }
                return Ok(Some(message));
            }
            Type::MethodReturn | Type::Error => {
                let serial = header.reply_serial().filter(|_| header.sender().is_some_and(|sender| sender == BUS));
                let Some(name) = serial.and_then(|serial| self.asked.remove(&serial)) else { return Ok(Some(message)) };
                if header.error_name().is_some_and(|error| error == NO_OWNER) {
                    self.callers.drop_calls_of(&name);
                }
                self.callers.know(name, message.body().deserialize().ok());
                return Ok(None);
            }
        }
        let Some(sender) = header.sender() else { return Ok(Some(message)) };
        let call = WaitingCall {
            sender: sender.to_string(),
            serial: header.primary().serial_num().get(),
            cost: cost(&header),
            wants_answer,
            bytes: message.data().to_vec(),
        };
        if arrived.is_cut {
            let problem = Error::LimitReached(gettext_noop("The request is too long.").into());
            self.refuse(call, &problem).await?;
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
                self.refuse(call, &Error::LimitReached(problem.into())).await.map(|()| None)
            }
            Fate::ComesTooLate(call) => {
                let problem = gettext_noop("The service is being stopped. Try again when it is back.");
                self.refuse(call, &Error::Busy(problem.into())).await.map(|()| None)
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

    async fn refuse(&mut self, call: WaitingCall, problem: &Error) -> zbus::Result<()> {
        if !call.wants_answer {
            return Ok(());
        }
        let call = parse(call.bytes, 0).await?;
        self.writer.lock().await.send_message(&problem.create_reply(&call.header())?).await
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
            if let Some(arrived) = self.incoming.next()? {
                match self.sort(arrived, seq).await? {
                    Some(message) => return Ok(message),
                    None => continue,
                }
            }
            if let Some(request) = self.departures.request(self.callers.has_waiting(), Instant::now())? {
                self.writer.lock().await.send_message(&request).await?;
            }
            tokio::select! {
                read = self.incoming.read() => read?,
                () = self.callers.change() => {}
                () = self.departures.due() => {}
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
fn cost(call: &Header<'_>) -> Cost {
    match (call.interface(), call.member()) {
        (Some(interface), Some(member)) if interface == INTERFACE && ASKING.contains(&member.as_str()) => Cost::Asking,
        (Some(interface), _) if interface == INTERFACE => Cost::Long,
        _ => Cost::Read,
    }
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

/// Writes messages, each as a whole.
#[derive(Debug)]
struct MessageWriter(OwnedWriteHalf);

#[async_trait]
impl WriteHalf for MessageWriter {
    async fn sendmsg(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let stream: &UnixStream = self.0.as_ref();
        stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), bytes, fds)).await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self.0.as_ref().as_fd(), Shutdown::Both)?)
    }
}

fn send(stream: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    Ok(rustix::net::sendmsg(stream, &[io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn abstract_addresses_are_connected_to_and_those_of_other_kinds_refused() {
        let name = format!("scherzo-test-{}", std::process::id());
        let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let connect = async |address: &str| BusSocket::connect(&address.try_into().unwrap(), Arc::default()).await;
        connect(&format!("unix:abstract={name}")).await.unwrap();
        connect("unix:path=/nonexistent").await.unwrap_err();
        connect("tcp:host=localhost,port=1").await.unwrap_err();
    }

    #[tokio::test]
    async fn little_stands_before_the_next_answer() {
        let name = format!("scherzo-test-unread-{}", std::process::id());
        let _bus = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let address = format!("unix:abstract={name}").as_str().try_into().unwrap();
        let (_, mut answers) = BusSocket::connect(&address, Arc::default()).await.unwrap().split().take();
        let mut nr_unread = 0;
        while let Ok(nr_written) = timeout(Duration::from_millis(200), answers.sendmsg(&[0; 1000], &[])).await {
            nr_unread += nr_written.unwrap();
        }
        assert!((1000..3 * UNREAD_BYTES).contains(&nr_unread), "{nr_unread}");
    }

    #[test]
    fn methods_that_ask_are_those_of_the_interface() {
        let interface = include_str!("../../../dbus/org.scherzo.Scheduler1.xml");
        for member in ASKING {
            assert!(interface.contains(&format!("<method name=\"{member}\">")), "{member}");
        }
        let documented = interface.split("<!--").filter_map(|part| part.split_once("-->"));
        for (comment, element) in documented {
            let method = element.trim_start().strip_prefix("<method name=\"").and_then(|rest| rest.split('"').next());
            let asks = comment.contains("polkit action") && !comment.contains("polkit action that a change needs");
            if let Some(method) = method.filter(|_| asks) {
                assert!(ASKING.contains(&method), "{method}");
            }
        }
    }
}
