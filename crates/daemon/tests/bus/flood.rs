//! Connections of another user, if the test may become one, that call as fast as the bus takes it.

use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Uid, getuid};
use rustix::thread::set_thread_res_uid;
use zbus::Message;

use crate::support::Stage;

pub const NR_CONNECTIONS: u64 = 8;
/// The user who floods, if the tests are root's.
const NOBODY: u32 = 65534;
/// Where a message has its serial number, if it is in the byte order of this machine, and the lengths of its body and fields.
const SERIAL: Range<usize> = 8..12;
const BODY_LENGTH: Range<usize> = 4..8;
const FIELDS_LENGTH: Range<usize> = 12..16;
const START_BYTES: usize = 16;
/// What an answer has that is the bus's own: it is the sender.
const OF_BUS: &[u8] = b"\x14\0\0\0org.freedesktop.DBus\0";

/// Connections that make these calls in turn, until dropped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    nr_calls: Arc<AtomicU64>,
    nr_answers: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    pub fn begin(stage: &Stage, calls: &[Message]) -> Self {
        let path = stage.file("bus");
        let calls: Arc<Vec<_>> = Arc::new(calls.iter().map(|call| call.data().to_vec()).collect());
        let mut flood =
            Self { stop: Arc::default(), nr_calls: Arc::default(), nr_answers: Arc::default(), threads: Vec::new() };
        for _ in 0..NR_CONNECTIONS {
            let (path, calls, stop) = (path.clone(), Arc::clone(&calls), Arc::clone(&flood.stop));
            let (nr_calls, nr_answers) = (Arc::clone(&flood.nr_calls), Arc::clone(&flood.nr_answers));
            flood.threads.push(std::thread::spawn(move || {
                let socket = connect(&path);
                let answers = socket.try_clone().unwrap();
                let reading = std::thread::spawn(move || count_answers(answers, &nr_answers));
                pour(&socket, &calls, &stop, &nr_calls);
                // The bus may have ended it.
                let _ = socket.shutdown(std::net::Shutdown::Both);
                reading.join().unwrap();
            }));
        }
        flood
    }

    pub fn nr_calls(&self) -> u64 {
        self.nr_calls.load(Relaxed)
    }

    /// Answers of the service that have come.
    pub fn nr_answers(&self) -> u64 {
        self.nr_answers.load(Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // What went wrong in it has been printed.
            let _ = thread.join();
        }
    }
}

/// A connection that has said hello, by hand: no library sends without reading.
fn connect(path: &Path) -> UnixStream {
    // This thread alone becomes the other user, if there is one: a container may have none.
    let is_nobody = getuid().is_root() && {
        let nobody = Uid::from_raw(NOBODY);
        set_thread_res_uid(nobody, nobody, nobody).is_ok()
    };
    let uid = if is_nobody { NOBODY } else { getuid().as_raw() };
    let mut socket = UnixStream::connect(path).unwrap();
    // The digits of the user's number, each as the two hexadecimal digits of its character.
    socket.write_all(b"\0AUTH EXTERNAL ").unwrap();
    for digit in uid.to_string().bytes() {
        write!(socket, "{digit:x}").unwrap();
    }
    socket.write_all(b"\r\n").unwrap();
    assert!(socket.read(&mut [0; 256]).unwrap() > 0, "the bus refuses");
    socket.write_all(b"BEGIN\r\n").unwrap();
    let hello = Message::method_call("/org/freedesktop/DBus", "Hello");
    let hello = hello.destination("org.freedesktop.DBus").interface("org.freedesktop.DBus");
    socket.write_all(hello.build(&()).unwrap().data()).unwrap();
    socket.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    socket
}

fn pour(mut socket: &UnixStream, calls: &[Vec<u8>], stop: &AtomicBool, nr_calls: &AtomicU64) {
    for serial in 2u32.. {
        let mut message = calls[serial as usize % calls.len()].clone();
        message[SERIAL].copy_from_slice(&serial.to_ne_bytes());
        let mut left = &message[..];
        while !left.is_empty() {
            if stop.load(Relaxed) {
                return;
            }
            match socket.write(left) {
                Ok(nr_written) => left = &left[nr_written..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // A bus may end such a connection.
                Err(_) => return,
            }
        }
        nr_calls.fetch_add(1, Relaxed);
    }
}

/// Counts the answers of the service among those that come, until the connection ends.
fn count_answers(socket: UnixStream, nr_answers: &AtomicU64) {
    let mut socket = std::io::BufReader::new(socket);
    let mut start = [0; START_BYTES];
    while socket.read_exact(&mut start).is_ok() {
        let length = |range: Range<usize>| u32::from_ne_bytes(start[range].try_into().unwrap()) as usize;
        let (fields, body) = (length(FIELDS_LENGTH).next_multiple_of(8), length(BODY_LENGTH));
        let mut rest = vec![0; fields + body];
        if socket.read_exact(&mut rest).is_err() {
            return;
        }
        if !rest[..fields].windows(OF_BUS.len()).any(|part| part == OF_BUS) {
            nr_answers.fetch_add(1, Relaxed);
        }
    }
}
