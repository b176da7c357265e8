//! The engine as a process of its own, with a socket for its standard input.
//!
//! Most of what loading takes can be done beforehand. A standby process has done it while another one schedules, and takes
//! its place when that one ends. Nobody else sees a difference: to the loop it is an engine that starts fast.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scherzo_wire::channel::{self, Received};
use scherzo_wire::message::{LoadSettings, ToDaemon, ToEngine};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::{Engine, Reporter, event_of};
use crate::input::Input;
use crate::readiness::ReadySocket;
use crate::sample::SharedPages;
use scherzo_supervisor::{EngineEvent, Gone, Run};

/// A process that has closed its socket is about to end; only if it takes longer is the hang-up worth a report.
const LINGER: Duration = Duration::from_secs(1);
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Where the engine is installed: beside this program, wherever a distribution puts both.
pub fn installed_path() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("scherzo-engine"))
}

/// Starts engine processes.
#[derive(Debug)]
pub struct Real {
    path: PathBuf,
    inputs: mpsc::Sender<Input>,
    running: Option<EngineConnection>,
    /// What the engine that runs was told to load.
    settings: Option<LoadSettings>,
    standby: Option<StandbyEngine>,
}

/// The way to a process.
#[derive(Clone, Debug)]
struct EngineConnection {
    socket: Arc<ReadySocket>,
    kill: Arc<Notify>,
}

/// A process that prepares, or has prepared, and waits to be the next engine. It ends when this is dropped.
#[derive(Debug)]
struct StandbyEngine {
    line: EngineConnection,
    take: oneshot::Sender<Reporter>,
}

impl Real {
    /// Engines of this program.
    #[must_use]
    pub fn new(path: PathBuf, inputs: mpsc::Sender<Input>) -> Self {
        Self { path, inputs, running: None, settings: None, standby: None }
    }

    fn start(&self) -> io::Result<(EngineConnection, Child)> {
        let (ours, theirs) = channel::pair()?;
        let child = Command::new(&self.path)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        Ok((EngineConnection { socket: Arc::new(ReadySocket::new(ours)?), kill: Arc::new(Notify::new()) }, child))
    }

    fn start_standby(&self, settings: LoadSettings) -> io::Result<StandbyEngine> {
        let (line, child) = self.start()?;
        line.send(&ToEngine::Prepare(settings))?;
        let (take, taken) = oneshot::channel();
        tokio::spawn(wait_in_reserve(line.clone(), child, taken));
        Ok(StandbyEngine { line, take })
    }

    /// The engine of that reporter's run, if there is a standby engine; else the reporter is back.
    fn take_standby(&mut self, reporter: Reporter) -> Result<EngineConnection, Reporter> {
        match self.standby.take().filter(StandbyEngine::is_alive) {
            Some(StandbyEngine { line, take }) => take.send(reporter).map(|()| line),
            None => Err(reporter),
        }
    }
}

impl Engine for Real {
    fn spawn(&mut self, run: Run) {
        let reporter = match self.take_standby(Reporter::new(run, self.inputs.clone())) {
            Ok(line) => {
                self.running = Some(line);
                return;
            }
            Err(reporter) => reporter,
        };
        match self.start() {
            Ok((line, child)) => {
                self.running = Some(line.clone());
                tokio::spawn(Conversation { line, pid: child.id(), reporter }.hold(child));
            }
            Err(error) => {
                let text = format!("{}: {error}", self.path.display());
                tokio::spawn(async move { reporter.report(EngineEvent::NotStarted(text), None).await });
            }
        }
    }

    fn send(&mut self, message: &ToEngine) {
        match message {
            ToEngine::Load(settings) => self.settings = Some(*settings),
            ToEngine::Unload => {
                self.settings = None;
                self.drop_standby();
            }
            _ => {}
        }
        if let Some(running) = &self.running
            && let Err(error) = running.send(message)
        {
            warn!("cannot tell the engine {message:?}: {error}");
        }
    }

    fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill.notify_one();
        }
    }

    fn prepare_standby(&mut self) {
        let Some(settings) = self.settings else { return };
        if self.standby.as_ref().is_some_and(StandbyEngine::is_alive) {
            return;
        }
        self.standby = self
            .start_standby(settings)
            .inspect_err(|error| debug!("cannot start a standby engine, {}: {error}", self.path.display()))
            .ok();
    }

    fn drop_standby(&mut self) {
        self.standby = None;
    }
}

impl EngineConnection {
    fn send(&self, message: &ToEngine) -> io::Result<()> {
        channel::send(&*self.socket, &message.encode(), &[])
    }
}

impl StandbyEngine {
    /// Whether the other end of its socket is open still, whatever it has said.
    fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(&*self.line.socket, PollFlags::empty())];
        matches!(poll(&mut fds, Some(&NO_WAIT)), Ok(0))
    }
}

/// Looks after a standby process until it is taken, is wanted no longer, or ends. What it says meanwhile stays in the socket
/// for whoever takes it.
async fn wait_in_reserve(line: EngineConnection, mut child: Child, taken: oneshot::Receiver<Reporter>) {
    let pid = child.id();
    let taken = tokio::select! {
        // Who has taken it hears of its end, even if that comes at the same time.
        biased;
        taken = taken => taken,
        status = child.wait() => {
            debug!("the standby engine, process {pid:?}, has ended: {status:?}, {}", last_words(&line.socket));
            return;
        }
    };
    match taken {
        Ok(reporter) => Conversation { line, pid, reporter }.hold(child).await,
        Err(_) => {
            if let Err(error) = child.kill().await {
                debug!("cannot kill the standby engine, process {pid:?}: {error}");
            }
        }
    }
}

/// Why it failed, if it has said so.
fn last_words(socket: &ReadySocket) -> String {
    loop {
        match Heard::new(channel::receive(socket)) {
            Heard::Message(ToDaemon::Failed { text, .. }, _) => return text,
            Heard::Message(..) => {}
            _ => return "without a word".to_owned(),
        }
    }
}

struct Conversation {
    line: EngineConnection,
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
                        () = self.line.kill.notified() => self.strike(&mut child),
                    }
                    break child.wait().await;
                }
                () = self.line.kill.notified() => self.strike(&mut child),
                status = child.wait() => break status,
            }
        };
        // What it said last is in the socket still.
        while open {
            match Heard::new(channel::receive(&*self.line.socket)) {
                Heard::Nothing => break,
                heard => open = self.relay(heard).await,
            }
        }
        self.reporter.report(EngineEvent::Gone(gone(&status)), None).await;
    }

    async fn listen(&self) -> Heard {
        Heard::new(self.line.socket.read(|socket| channel::receive(socket)).await)
    }

    /// Whether there may be more to hear.
    async fn relay(&self, heard: Heard) -> bool {
        let (event, pages) = match heard {
            Heard::Message(ToDaemon::Loaded { nr_cpus, load_us, .. }, fds) => {
                match SharedPages::map(&fds, nr_cpus, load_us, self.pid) {
                    Ok(pages) => (EngineEvent::Loaded, Some(pages)),
                    Err(error) => (EngineEvent::Garbled(format!("its pages cannot be mapped: {error}")), None),
                }
            }
            Heard::Message(message, _) => match event_of(message) {
                Some(event) => (event, None),
                None => return true,
            },
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
