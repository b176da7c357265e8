//! What comes from the bus, cut into messages.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use zbus::message::Type;

/// So much is read at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// The longest call that is read, and signal: many times what any of the interface needs.
const MAX_BYTES: usize = 64 << 10;
/// Where a message has its kind, and the lengths of its body and of the fields of its header.
const KIND: usize = 1;
const BODY_LENGTH: usize = 4;
const FIELDS_LENGTH: usize = 12;
/// The header before its fields, which are filled up to a multiple of this.
const START_BYTES: usize = 16;
const ALIGNMENT: usize = 8;

/// What comes from the bus.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: OwnedReadHalf,
    bytes: Vec<u8>,
    /// Where the next message begins in them.
    start: usize,
    /// The rest of a message that is too long.
    nr_to_skip: usize,
}

/// A message that has come.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) bytes: Vec<u8>,
    /// It was too long, and has lost its body.
    pub(super) is_cut: bool,
}

impl Incoming {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self { stream, bytes: Vec::new(), start: 0, nr_to_skip: 0 }
    }

    /// What has been read already belongs to messages.
    pub(super) fn append(&mut self, received: &mut Vec<u8>) {
        self.bytes.append(received);
    }

    /// Bytes that are no messages yet.
    pub(super) async fn read_raw(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer).await
    }

    /// Reads more; nothing is lost if this is not waited for to its end.
    pub(super) async fn read(&mut self) -> io::Result<()> {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.reserve(BUFFER_BYTES);
        match self.stream.read_buf(&mut self.bytes).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the bus has closed the connection")),
            _ => Ok(()),
        }
    }

    /// The next message, if all of it has come.
    pub(super) fn next(&mut self) -> io::Result<Option<Arrived>> {
        let Some(Cut { nr_bytes, nr_cut }) = self.cut()? else { return Ok(None) };
        let mut bytes = self.left()[..nr_bytes].to_vec();
        self.start += nr_bytes;
        let is_cut = nr_cut > 0;
        if is_cut {
            bytes[BODY_LENGTH..BODY_LENGTH + size_of::<u32>()].fill(0);
            self.nr_to_skip = nr_cut;
        }
        Ok(Some(Arrived { bytes, is_cut }))
    }

    /// The next message where it lies, if all of it has come, and is not too long.
    pub(super) fn peek(&mut self) -> io::Result<Option<&[u8]>> {
        let whole = self.cut()?.filter(|cut| cut.nr_cut == 0);
        Ok(whole.map(|cut| &self.left()[..cut.nr_bytes]))
    }

    /// Throws that message away, of so many bytes.
    pub(super) fn pass(&mut self, nr_bytes: usize) {
        self.start += nr_bytes;
    }

    /// How the next message is cut, if all that is wanted of it has come.
    fn cut(&mut self) -> io::Result<Option<Cut>> {
        loop {
            let nr_skipped = self.nr_to_skip.min(self.left().len());
            self.start += nr_skipped;
            self.nr_to_skip -= nr_skipped;
            let left = self.left();
            if left.len() < START_BYTES {
                return Ok(None);
            }
            let header = (START_BYTES + length_at(left, FIELDS_LENGTH)?).next_multiple_of(ALIGNMENT);
            let body = length_at(left, BODY_LENGTH)?;
            let is_limited = matches!(left[KIND], kind if kind == Type::MethodCall as u8 || kind == Type::Signal as u8);
            let is_cut = is_limited && header + body > MAX_BYTES;
            if is_cut && header > MAX_BYTES {
                self.nr_to_skip = header + body;
                continue;
            }
            let cut = if is_cut {
                Cut { nr_bytes: header, nr_cut: body }
            } else {
                Cut { nr_bytes: header + body, nr_cut: 0 }
            };
            return Ok(Some(cut).filter(|cut| cut.nr_bytes <= left.len()));
        }
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// How a message is cut out of what has come.
struct Cut {
    nr_bytes: usize,
    /// Those after it, which are too many and are skipped.
    nr_cut: usize,
}

fn length_at(message: &[u8], offset: usize) -> io::Result<usize> {
    let mut length = [0; size_of::<u32>()];
    length.copy_from_slice(&message[offset..offset + size_of::<u32>()]);
    match message[0] {
        b'l' => Ok(u32::from_le_bytes(length) as usize),
        b'B' => Ok(u32::from_be_bytes(length) as usize),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "what the bus sends is no message")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;
    use tokio::net::unix::OwnedWriteHalf;
    use zbus::Message;

    use super::super::parse;
    use super::*;

    fn message(member: &str, body: &str) -> Vec<u8> {
        let message = Message::method_call("/org/example", member).interface("org.example").build(&body).unwrap();
        message.data().to_vec()
    }

    fn incoming() -> (Incoming, OwnedWriteHalf, impl Sized) {
        let (here, there) = UnixStream::pair().unwrap();
        let ((stream, write), (read, bus)) = (here.into_split(), there.into_split());
        (Incoming::new(stream), bus, (write, read))
    }

    async fn next(incoming: &mut Incoming) -> Arrived {
        loop {
            if let Some(arrived) = incoming.next().unwrap() {
                return arrived;
            }
            incoming.read().await.unwrap();
        }
    }

    #[tokio::test]
    async fn messages_are_whole_however_they_come() {
        let messages: Vec<_> = (0..20).map(|length| message("Ping", &"x".repeat(length))).collect();
        let sent = messages.concat();
        for nr_at_once in [1, 7, 16, 200, sent.len()] {
            let (mut incoming, mut bus, _other) = incoming();
            let sent = sent.clone();
            let sending = tokio::spawn(async move {
                for part in sent.chunks(nr_at_once) {
                    bus.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
                bus
            });
            for expected in &messages {
                let arrived = next(&mut incoming).await;
                assert_eq!((&arrived.bytes, arrived.is_cut), (expected, false));
            }
            drop(sending.await.unwrap());
            assert!(incoming.read().await.is_err(), "the bus has gone");
        }
    }

    #[tokio::test]
    async fn what_is_too_long_is_cut_or_skipped_and_answers_are_not() {
        let (mut incoming, mut bus, _other) = incoming();
        let long = "x".repeat(MAX_BYTES);
        let call = Message::method_call("/org/example", "Ping").build(&"").unwrap();
        let answer = Message::method_return(&call.header()).build(&long).unwrap().data().to_vec();
        let path = format!("/{long}");
        let long_path = Message::method_call(path.as_str(), "Ping").build(&long).unwrap().data().to_vec();
        let last = message("Last", "");
        let sent = [message("First", &long), long_path, answer.clone(), last.clone()].concat();
        let sending = tokio::spawn(async move { bus.write_all(&sent).await.map(|()| bus).unwrap() });
        let cut = next(&mut incoming).await;
        assert!(cut.is_cut && cut.bytes.len() < 200);
        let cut = parse(cut.bytes, 1).await.unwrap();
        assert_eq!((cut.header().member().unwrap().as_str(), cut.body().len()), ("First", 0));
        assert_eq!(next(&mut incoming).await.bytes, answer);
        assert_eq!(next(&mut incoming).await.bytes, last);
        drop(sending.await.unwrap());
    }

    #[tokio::test]
    async fn what_is_no_message_ends_the_connection() {
        let (mut incoming, mut bus, _other) = incoming();
        bus.write_all(&[b'x'; 2 * START_BYTES]).await.unwrap();
        incoming.read().await.unwrap();
        incoming.next().unwrap_err();
    }
}
