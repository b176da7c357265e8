//! Changes of mode or seat from inside the guest, as fast as the service answers or at intervals.
//!
//! Starting `busctl` costs an emulated guest under load a second, so a thousand changes go over one connection. The
//! part of the D-Bus protocol that this takes is small: sign in, call, and skip what is not the answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";
const SERVICE: &str = "org.scherzo.Scheduler1";
const SERVICE_PATH: &str = "/org/scherzo/Scheduler1";
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";

/// Kinds of messages.
const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;

/// A member and what it is called with.
type StormCall = (&'static str, Argument);

/// Changes of the mode, which are repeated in this order: each of them changes something.
const MODE_CHANGES: &[StormCall] = &[
    ("SetMode", Argument::Text("fifo")),
    ("SetPreemption", Argument::Flag(false)),
    ("SetMode", Argument::Text("low-power")),
    ("SetMode", Argument::Text("interactive")),
    ("SetPreemption", Argument::Flag(true)),
];
/// The same of the policy's seat.
const SEAT_CHANGES: &[StormCall] = &[("SetEngine", Argument::Text("user")), ("SetEngine", Argument::Text("kernel"))];

#[derive(Clone, Copy)]
enum Argument {
    Nothing,
    Text(&'static str),
    Flag(bool),
}

/// Makes `nr_changes` of the mode with a pause after each; prints the median and the longest time from call to answer, in
/// µs.
pub fn change_modes(nr_changes: usize, pause: Duration) -> Result<()> {
    let took_us = change(MODE_CHANGES, nr_changes, pause)?;
    println!("{} {}", took_us[nr_changes / 2], took_us[nr_changes - 1]);
    Ok(())
}

/// The same of the seat; prints the time that 99 in 100 keep, and the longest.
pub fn change_seats(nr_changes: usize, pause: Duration) -> Result<()> {
    let took_us = change(SEAT_CHANGES, nr_changes, pause)?;
    println!("{} {}", took_us[nr_changes * 99 / 100], took_us[nr_changes - 1]);
    Ok(())
}

/// How long each took, in µs, the shortest first.
fn change(changes: &[StormCall], nr_changes: usize, pause: Duration) -> Result<Vec<u128>> {
    ensure!(nr_changes > 0, "no change to make");
    let mut bus = Connection::open(SYSTEM_BUS)?;
    let mut took = Vec::with_capacity(nr_changes);
    for (member, argument) in changes.iter().cycle().take(nr_changes) {
        let started = Instant::now();
        bus.call(SERVICE, SERVICE_PATH, member, *argument).with_context(|| format!("after {} changes", took.len()))?;
        took.push(started.elapsed().as_micros());
        thread::sleep(pause);
    }
    took.sort_unstable();
    Ok(took)
}

struct Connection {
    stream: BufReader<UnixStream>,
    serial: u32,
}

impl Connection {
    fn open(socket: &str) -> Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| format!("cannot connect to {socket}"))?;
        let mut connection = Self { stream: BufReader::new(stream), serial: 0 };
        connection.sign_in()?;
        connection.call(BUS, BUS_PATH, "Hello", Argument::Nothing)?;
        Ok(connection)
    }

    /// The user id is given as the hexadecimal codes of its decimal digits.
    fn sign_in(&mut self) -> Result<()> {
        let uid = rustix::process::geteuid().as_raw().to_string();
        let hex: String = uid.chars().flat_map(|digit| ['3', digit]).collect();
        self.stream.get_mut().write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer)?;
        ensure!(answer.starts_with("OK "), "the bus refuses: {answer}");
        Ok(self.stream.get_mut().write_all(b"BEGIN\r\n")?)
    }

    fn call(&mut self, service: &str, path: &str, member: &str, argument: Argument) -> Result<()> {
        self.serial += 1;
        let message = method_call(self.serial, service, path, member, argument);
        self.stream.get_mut().write_all(&message)?;
        loop {
            match read_message(&mut self.stream)? {
                (RETURN, _) => return Ok(()),
                (ERROR, body) => bail!("{member}: {}", String::from_utf8_lossy(&body).replace('\0', "")),
                _ => {}
            }
        }
    }
}

/// A call of a member of the interface that is named like the service.
fn method_call(serial: u32, service: &str, path: &str, member: &str, argument: Argument) -> Vec<u8> {
    let (signature, body) = match argument {
        Argument::Nothing => ("", Bytes::default()),
        Argument::Text(text) => ("s", Bytes::default().text(text)),
        Argument::Flag(flag) => ("b", Bytes::default().number(flag.into())),
    };
    let mut fields =
        Bytes::default().field(1, "o", path).field(2, "s", service).field(3, "s", member).field(6, "s", service);
    if !signature.is_empty() {
        fields = fields.align(8).raw(&[8, 1, b'g', 0, 1]).raw(signature.as_bytes()).raw(&[0]);
    }
    let head = Bytes::default().raw(&[b'l', CALL, 0, 1]).number(body.0.len() as u32).number(serial);
    // The fields start at a multiple of eight (16), so their own alignment holds in the whole message.
    head.number(fields.0.len() as u32).raw(&fields.0).align(8).raw(&body.0).0
}

/// A message's kind and body.
fn read_message(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 16];
    from.read_exact(&mut head)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let (body_length, fields_length) = (number(4), number(12));
    let mut fields = vec![0; fields_length.next_multiple_of(8)];
    from.read_exact(&mut fields)?;
    let mut body = vec![0; body_length];
    from.read_exact(&mut body)?;
    Ok((head[1], body))
}

/// Little-endian D-Bus encoding.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn align(mut self, to: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn number(self, number: u32) -> Self {
        self.align(4).raw(&number.to_le_bytes())
    }

    fn text(self, text: &str) -> Self {
        self.number(text.len() as u32).raw(text.as_bytes()).raw(&[0])
    }

    /// A header field: its code, a variant's signature, the value.
    fn field(self, code: u8, signature: &str, value: &str) -> Self {
        self.align(8).raw(&[code, 1]).raw(signature.as_bytes()).raw(&[0]).text(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_encoded_as_the_specification_says() {
        let message = method_call(7, "a.b", "/c", "D", Argument::Text("xy"));
        let expected: &[&[u8]] = &[
            &[b'l', 1, 0, 1, 7, 0, 0, 0, 7, 0, 0, 0, 71, 0, 0, 0],
            b"\x01\x01o\0\x02\0\0\0/c\0\0\0\0\0\0",
            b"\x02\x01s\0\x03\0\0\0a.b\0\0\0\0\0",
            b"\x03\x01s\0\x01\0\0\0D\0\0\0\0\0\0\0",
            b"\x06\x01s\0\x03\0\0\0a.b\0\0\0\0\0",
            b"\x08\x01g\0\x01s\0\0",
            b"\x02\0\0\0xy\0",
        ];
        assert_eq!(message, expected.concat());
        assert_eq!(read_message(&mut message.as_slice()).unwrap(), (CALL, b"\x02\0\0\0xy\0".to_vec()));
    }
}
