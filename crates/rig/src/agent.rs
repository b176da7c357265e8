//! The agent in the guest: runs shell commands for the host, any number at a time.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::protocol::Frame;

/// The name under which QEMU offers the port.
pub const PORT_NAME: &str = "scherzo";
/// How long to wait for output once a command has ended: its background processes may keep the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// How often to look whether a host that has disconnected is back.
const RECONNECT_PERIOD: Duration = Duration::from_millis(100);
const OUTPUT_CHUNK_BYTES: usize = 32 << 10;

type Port = Arc<Mutex<File>>;

/// Serves the host until the port closes, which it never does while the machine runs.
pub fn serve() -> Result<()> {
    let port = open_port()?;
    let to_host: Port = Arc::new(Mutex::new(port.try_clone()?));
    let mut from_host = FromHost(port);
    send(&to_host, &Frame::Hello);
    let mut groups = HashMap::new();
    loop {
        match Frame::read(&mut from_host).context("the host is gone")? {
            Frame::Spawn(id, command) => match spawn(id, &command, &to_host) {
                Ok(group) => drop(groups.insert(id, group)),
                Err(error) => {
                    send(&to_host, &Frame::Stderr(id, format!("{error:#}\n").into_bytes()));
                    send(&to_host, &Frame::Exit(id, 127));
                }
            },
            Frame::Kill(id) => {
                if let Some(group) = groups.remove(&id) {
                    // The process may have ended already.
                    let _ = kill_process_group(group, Signal::KILL);
                }
            }
            Frame::Hello | Frame::Stdout(..) | Frame::Stderr(..) | Frame::Exit(..) => {}
        }
    }
}

/// What the host sends. The host may disconnect and come back (`Guest::wake_up`): until then the port reads as ended.
struct FromHost(File);

impl Read for FromHost {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer)? {
                0 if !buffer.is_empty() => thread::sleep(RECONNECT_PERIOD),
                nr_bytes => return Ok(nr_bytes),
            }
        }
    }
}

/// Waits until the driver has created the device of the port, and returns it.
fn open_port() -> Result<File> {
    loop {
        if let Some(device) = find_port()? {
            return OpenOptions::new()
                .read(true)
                .write(true)
                .open(&device)
                .with_context(|| format!("{}", device.display()));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn find_port() -> Result<Option<PathBuf>> {
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == PORT_NAME {
            return Ok(Some(PathBuf::from("/dev").join(entry.file_name())));
        }
    }
    Ok(None)
}

/// Starts a command and returns its process group.
fn spawn(id: u32, command: &str, port: &Port) -> Result<Pid> {
    let child = Command::new("/bin/sh")
        .args(["-c", command])
        .current_dir("/root")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start a shell")?;
    let group = Pid::from_child(&child);
    let port = Arc::clone(port);
    thread::spawn(move || attend(id, child, &port));
    Ok(group)
}

/// Passes on what the command prints, then how it ended.
fn attend(id: u32, mut child: Child, port: &Port) {
    let (open, closed) = mpsc::channel::<()>();
    if let Some(pipe) = child.stdout.take() {
        pass_on(pipe, port, open.clone(), move |bytes| Frame::Stdout(id, bytes));
    }
    if let Some(pipe) = child.stderr.take() {
        pass_on(pipe, port, open, move |bytes| Frame::Stderr(id, bytes));
    }
    let status = child.wait().map_or(127, status_code);
    // Ends at once when both pipes are closed, because then every sender is gone.
    let _ = closed.recv_timeout(OUTPUT_GRACE);
    send(port, &Frame::Exit(id, status));
}

fn pass_on(
    mut pipe: impl Read + Send + 'static,
    port: &Port,
    open: Sender<()>,
    frame: impl Fn(Vec<u8>) -> Frame + Send + 'static,
) {
    let port = Arc::clone(port);
    thread::spawn(move || {
        let _open = open;
        let mut buffer = vec![0; OUTPUT_CHUNK_BYTES];
        while let Ok(nr_bytes @ 1..) = pipe.read(&mut buffer) {
            send(&port, &frame(buffer[..nr_bytes].to_vec()));
        }
    });
}

fn status_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Errors are dropped: without the host there is nowhere to report them.
fn send(port: &Port, frame: &Frame) {
    if let Ok(mut port) = port.lock() {
        let _ = frame.write(&mut *port);
    }
}
