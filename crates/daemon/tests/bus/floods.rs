//! Clients that call as fast as the bus carries it and read no answer: the service goes on. How fast is asserted in a
//! guest, where time is virtual.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use scherzo_api::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use zbus::{Message, Variant};

use crate::support::{Client, Stage, eventually, read};

const NR_CONNECTIONS: usize = 8;
/// The service's memory stays below this, however much it is asked, and how often that is looked at.
const MAX_PSS_KIB: u64 = 24 << 10;
const NR_LOOKS: u32 = 40;
/// Where a message has its serial number, if it is in the byte order of this machine.
const SERIAL: std::ops::Range<usize> = 8..12;

/// Connections that call every method in turn, until dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    nr_calls: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn begin(stage: &Stage) -> Self {
        let (stop, nr_calls) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let connect = |_| {
            let (socket, stop, nr_calls) = (connect(stage), Arc::clone(&stop), Arc::clone(&nr_calls));
            std::thread::spawn(move || pour(socket, &stop, &nr_calls))
        };
        let threads = (0..NR_CONNECTIONS).map(connect).collect();
        Self { stop, nr_calls, threads }
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
fn connect(stage: &Stage) -> UnixStream {
    let mut socket = UnixStream::connect(stage.file("bus")).unwrap();
    // The digits of the user's number, each as the two hexadecimal digits of its character.
    socket.write_all(b"\0AUTH EXTERNAL ").unwrap();
    for digit in rustix::process::getuid().as_raw().to_string().bytes() {
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

fn calls() -> Vec<Vec<u8>> {
    let call =
        |member: &str| Message::method_call(OBJECT_PATH, member.to_owned()).destination(BUS_NAME).interface(INTERFACE);
    let plain = ["GetStats", "GetWaitHistogram", "Diagnose", "Subscribe", "Unsubscribe", "InspectHolds"];
    let settings = std::collections::HashMap::from([("battery_mode", Variant::from("fifo"))]);
    let messages = [
        call("GetHistory").build(&(0u32,)),
        call("SetMode").build(&("fifo",)),
        call("SetEnabled").build(&(false,)),
        call("SetPreemption").build(&(true,)),
        call("HoldMode").build(&("fifo", "a flood", "org.example.Flood")),
        call("OpenHold").build(&("fifo", "a flood", "org.example.Flood", 60u32)),
        call("SetModeFor").build(&("fifo", 60u32)),
        call("ReleaseMode").build(&(7u32,)),
        call("Configure").build(&(settings,)),
    ];
    let plain = plain.iter().map(|member| call(member).build(&()));
    messages.into_iter().chain(plain).map(|message| message.unwrap().data().to_vec()).collect()
}

fn pour(mut socket: UnixStream, stop: &AtomicBool, nr_calls: &AtomicU64) {
    let calls = calls();
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

#[tokio::test]
async fn who_floods_the_service_stalls_neither_it_nor_others() {
    let stage = Stage::new();
    for (name, text) in [
        ("var/lib/scherzo/state.toml", "enabled = true\nmode = \"auto\"\npreemption = true\n"),
        // A service that restarts loads at once.
        ("run/scherzo/started", ""),
    ] {
        std::fs::create_dir_all(stage.file(name).parent().unwrap()).unwrap();
        std::fs::write(stage.file(name), text).unwrap();
    }
    // Whoever floods may change nothing: without polkit, nobody may.
    let daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    client.wait_for_state("running").await;
    let enable_seq = stage.kernel().enable_seq;

    let flood = Flood::begin(&stage);
    eventually("the flood has begun", async || flood.nr_calls.load(Relaxed) > 1_000).await;

    let asked_at = Instant::now();
    client.scheduler.state().await.unwrap();
    let answered_after = asked_at.elapsed();
    let killed_at = Instant::now();
    daemon.signal(Signal::USR1);
    eventually("another engine", async || stage.kernel().enable_seq > enable_seq).await;
    let mut pss_kib = 0;
    for _ in 0..NR_LOOKS {
        pss_kib = pss_kib.max(daemon.pss_kib());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(pss_kib < MAX_PSS_KIB, "the service takes {pss_kib} KiB");
    eprintln!(
        "under a flood of {} calls: State after {answered_after:?}, another engine after {:?}, at most \
         {pss_kib} KiB",
        flood.nr_calls.load(Relaxed),
        killed_at.elapsed()
    );
    drop(flood);

    client.wait_for_state("running").await;
    assert_eq!(client.snapshot().await.requested_mode, "auto", "the flood has changed nothing");
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.end();
    assert_eq!((code, read(stage.file("sys/kernel/sched_ext/state")).as_str()), (Some(0), "disabled"), "{log}");
}
