//! The engine as a process of its own, with a socket for its standard input.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use scherzo_wire::channel::{self, Received};
use scherzo_wire::message::{ToDaemon, ToEngine};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use tracing::warn;

use super::{Engine, Reporter, event_of};
use crate::core::{EngineEvent, Gone, Run};
use crate::readiness::Watched;
use crate::sample::Pages;
use crate::shell::Input;

/// A process that has closed its socket is about to end; only if it takes longer is the hang-up worth a report.
const LINGER: Duration = Duration::from_secs(1);

/// Where the engine is installed: beside this program, wherever a distribution puts both.
pub fn installed_path() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("scherzo-engine"))
}

/// Starts engine processes.
#[derive(Debug)]
pub struct Real {
    path: PathBuf,
    inputs: mpsc::Sender<Input>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    socket: Arc<Watched>,
    kill: Arc<Notify>,
}

impl Real {
    /// Engines of this program.
    #[must_use]
    pub fn new(path: PathBuf, inputs: mpsc::Sender<Input>) -> Self {
        Self { path, inputs, running: None }
    }

    fn start(&self) -> io::Result<(Watched, Child)> {
        let (ours, theirs) = channel::pair()?;
        let child = Command::new(&self.path)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        Ok((Watched::new(ours)?, child))
    }
}

impl Engine for Real {
    fn spawn(&mut self, run: Run) {
        let reporter = Reporter::new(run, self.inputs.clone());
        match self.start() {
            Ok((socket, child)) => {
                let running = Running { socket: Arc::new(socket), kill: Arc::new(Notify::new()) };
                let conversation = Conversation {
                    socket: Arc::clone(&running.socket),
                    kill: Arc::clone(&running.kill),
                    pid: child.id(),
                    reporter,
                };
                tokio::spawn(conversation.hold(child));
                self.running = Some(running);
            }
            Err(error) => {
                let text = format!("{}: {error}", self.path.display());
                tokio::spawn(async move { reporter.report(EngineEvent::NotStarted(text), None).await });
            }
        }
    }

    fn send(&mut self, message: &ToEngine) {
        if let Some(running) = &self.running
            && let Err(error) = channel::send(&*running.socket, &message.encode(), &[])
        {
            warn!("cannot tell the engine {message:?}: {error}");
        }
    }

    fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill.notify_one();
        }
    }
}

struct Conversation {
    socket: Arc<Watched>,
    kill: Arc<Notify>,
    pid: Option<u32>,
    reporter: Reporter,
}

enum Heard {
    Message(ToDaemon, Vec<OwnedFd>),
    Nonsense(String),
    Nothing,
    End,
}

impl Heard {
    fn new(received: io::Result<Received>) -> Self {
        match received {
            Ok(Received::Packet(packet, fds)) => match ToDaemon::decode(&packet[..]) {
                Ok(message) => Self::Message(message, fds),
                Err(error) => Self::Nonsense(error.to_string()),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Nothing,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Self::Nonsense(error.to_string()),
            Ok(Received::Closed) | Err(_) => Self::End,
        }
    }
}

impl Conversation {
    /// Reports what the engine says until its process is gone.
    async fn hold(self, mut child: Child) {
        let mut open = true;
        let status = loop {
            tokio::select! {
                heard = self.listen(), if open => open = self.relay(heard).await,
                () = sleep(LINGER), if !open => {
                    self.reporter.report(EngineEvent::HungUp, None).await;
                    tokio::select! {
                        status = child.wait() => break status,
                        () = self.kill.notified() => self.strike(&mut child),
                    }
                    break child.wait().await;
                }
                () = self.kill.notified() => self.strike(&mut child),
                status = child.wait() => break status,
            }
        };
        // What it said last is in the socket still.
        while open {
            match Heard::new(channel::receive(&*self.socket)) {
                Heard::Nothing => break,
                heard => open = self.relay(heard).await,
            }
        }
        self.reporter.report(EngineEvent::Gone(gone(&status)), None).await;
    }

    async fn listen(&self) -> Heard {
        Heard::new(self.socket.read(|socket| channel::receive(socket)).await)
    }

    /// Whether there may be more to hear.
    async fn relay(&self, heard: Heard) -> bool {
        let (event, pages) = match heard {
            Heard::Message(ToDaemon::Loaded { nr_cpus, load_us, .. }, fds) => {
                match Pages::map(&fds, nr_cpus, load_us, self.pid) {
                    Ok(pages) => (EngineEvent::Loaded, Some(pages)),
                    Err(error) => (EngineEvent::Garbled(format!("its pages cannot be mapped: {error}")), None),
                }
            }
            Heard::Message(message, _) => (event_of(message), None),
            Heard::Nonsense(text) => (EngineEvent::Garbled(text), None),
            Heard::Nothing => return true,
            Heard::End => return false,
        };
        self.reporter.report(event, pages).await;
        true
    }

    fn strike(&self, child: &mut Child) {
        if let Err(error) = child.start_kill() {
            warn!("cannot kill the engine, process {:?}: {error}", self.pid);
        }
    }
}

fn gone(status: &io::Result<ExitStatus>) -> Gone {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Gone::Code(code),
            (None, signal) => Gone::Signal(signal.unwrap_or_default()),
        },
        // Only if someone else has waited for it: it is gone, and how stays unknown.
        Err(_) => Gone::Code(-1),
    }
}
