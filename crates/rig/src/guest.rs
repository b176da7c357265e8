//! A running guest: runs programs in it and detects when it dies.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::harness::Keep;
use crate::kernel_log;
use crate::kernels::GuestKernel;
use crate::monitor::{self, Monitor};
use crate::protocol::Frame;
use crate::qemu::{self, Accel, BootFiles, GuestMachine, GuestTime};
use crate::roots::{DebianRoot, tail};
use crate::shell::{CommandOutput, Shell};

/// Lines of the console that accompany an error.
const CONSOLE_TAIL_LINES: usize = 40;
/// Until the agent says hello, on real hardware.
const BOOT_LIMIT: Duration = Duration::from_secs(15);
/// From then until start-up is over.
const START_UP_LIMIT: Duration = Duration::from_secs(30);
/// From asking for suspend until the machine is suspended.
const FALLING_ASLEEP_LIMIT: Duration = Duration::from_secs(10);
/// From waking the machine until the agent answers.
const WAKING_UP_LIMIT: Duration = Duration::from_secs(3);
/// For clearing the kernel's log.
const LOG_LIMIT: Duration = Duration::from_secs(10);
/// For the journal of a guest in which a case failed.
const JOURNAL_LIMIT: Duration = Duration::from_secs(5);
/// What the kernel prints at a fatal error.
const KERNEL_FAULTS: &[&str] = &["Kernel panic", "Oops:", "BUG: "];

/// A command that runs in the guest.
#[derive(Debug)]
pub struct Job {
    id: u32,
    command: String,
    events: Receiver<Frame>,
    output: CommandOutput,
}

/// The channel that receives the frames of each job; `None` once the guest has ended.
type Waiting = Arc<Mutex<Option<HashMap<u32, Sender<Frame>>>>>;

/// A booted machine. It ends when dropped.
#[derive(Debug)]
pub struct Guest {
    qemu: Child,
    wire: UnixStream,
    waiting: Waiting,
    next_job: u32,
    run_dir: TempDir,
    patience: u32,
    /// The command that makes the same one.
    again: String,
    /// How much of the console has been forgiven, in bytes.
    forgiven_length: usize,
    /// What cases have measured, until the harness takes it.
    figures: Vec<(String, u64)>,
}

impl Guest {
    /// Boots and waits until systemd says that start-up is over.
    pub fn boot(
        build_root: &DebianRoot,
        accel: Accel,
        kernel: &GuestKernel,
        machine: &GuestMachine,
        boot: &BootFiles,
    ) -> Result<Self> {
        let run_dir = tempfile::Builder::new().prefix("scherzo-guest-").tempdir()?;
        let mut qemu = qemu::start(build_root, accel, machine, boot, run_dir.path())?;
        let patience = patience(accel, machine);
        let again = format!("cargo xtask guest --kernel {} {} --put --shell", kernel.release, machine.options());
        let limit = BOOT_LIMIT * patience;
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let answer = connect(&mut qemu, run_dir.path(), limit).and_then(|wire| {
            let hello = subscribe(&waiting, 0)?;
            listen(wire.try_clone()?, Arc::clone(&waiting));
            monitor::keep_going(run_dir.path().join(qemu::MONITOR_SOCKET), monitor::NUDGE_PERIOD);
            hello.recv_timeout(limit).map_err(|error| boot_failure(error, limit))?;
            Ok(wire)
        });
        match answer {
            Ok(wire) => {
                let mut guest = Self {
                    qemu,
                    wire,
                    waiting,
                    next_job: 1,
                    run_dir,
                    patience,
                    again,
                    forgiven_length: 0,
                    figures: Vec::new(),
                };
                // A case checks whether start-up succeeded.
                guest.run("systemctl is-system-running --wait", START_UP_LIMIT)?;
                Ok(guest)
            }
            Err(error) => {
                let _ = qemu.kill();
                let _ = qemu.wait();
                Err(error.context(format!("{}\nthe same guest again: {again}", console_report(&run_dir.keep()))))
            }
        }
    }

    /// Reboots the system on the same disk, and waits until that start-up is over. Only for machines that reboot.
    pub fn reboot(&mut self) -> Result<()> {
        let hello = subscribe(&self.waiting, 0)?;
        // The answer may or may not come before the agent ends.
        let _ended = self.spawn("systemctl reboot")?;
        self.wait_for_start_up(&hello)
    }

    /// Cuts the system off, as a reset button does: what is not on its disks is lost. Then waits as [`Self::reboot`].
    pub fn cut_off(&mut self) -> Result<()> {
        let hello = subscribe(&self.waiting, 0)?;
        Monitor::connect(&self.run_dir.path().join(qemu::MONITOR_SOCKET))?.reset()?;
        self.wait_for_start_up(&hello)
    }

    fn wait_for_start_up(&mut self, hello: &Receiver<Frame>) -> Result<()> {
        let limit = BOOT_LIMIT * self.patience;
        hello.recv_timeout(limit).map_err(|error| boot_failure(error, limit)).with_context(|| self.report())?;
        self.run("systemctl is-system-running --wait", START_UP_LIMIT).map(drop)
    }

    /// Waits until the machine has suspended itself to memory, and wakes it, as opening a lid does.
    pub fn wake_up(&mut self) -> Result<()> {
        let limit = FALLING_ASLEEP_LIMIT * self.patience;
        let mut monitor = Monitor::connect(&self.run_dir.path().join(qemu::MONITOR_SOCKET))?;
        let deadline = Instant::now() + limit;
        while !monitor.is_suspended().with_context(|| self.report())? {
            ensure!(Instant::now() < deadline, "it was not suspended within {} s{}", limit.as_secs(), self.report());
            thread::sleep(Duration::from_millis(100));
        }
        monitor.wake_up()?;
        drop(monitor);
        self.restore_connection()
    }

    /// Makes sure that the agent answers after a resume. In 7.3.4 the driver of the port forgets on resume that the host
    /// is connected, and lets the agent's writes wait; it is told again when the host disconnects and connects.
    fn restore_connection(&mut self) -> Result<()> {
        let job = self.spawn("true")?;
        let limit = WAKING_UP_LIMIT * self.patience;
        if job.events.recv_timeout(limit).is_ok() {
            self.forget(job.id);
        } else {
            let jobs = self.waiting.lock().ok().context("a thread of the test rig panicked")?.take();
            // The thread that listens on the old connection keeps the old table, which it empties when it ends.
            self.waiting = Arc::new(Mutex::new(jobs));
            self.wire.shutdown(Shutdown::Both)?;
            self.wire = connect(&mut self.qemu, self.run_dir.path(), limit)?;
            listen(self.wire.try_clone()?, Arc::clone(&self.waiting));
            self.wait(job, WAKING_UP_LIMIT, |_| {})?;
        }
        Ok(())
    }

    /// The console log so far.
    #[must_use]
    pub fn console(&self) -> String {
        read_lossy(&self.run_dir.path().join(qemu::CONSOLE_LOG))
    }

    /// What the kernel has complained about until now was wanted, and fails no case.
    pub fn forgive_kernel(&mut self) -> Result<()> {
        self.check("dmesg --clear", LOG_LIMIT)?;
        self.forgiven_length = self.console().len();
        Ok(())
    }

    /// Something that a case has measured, for the run's record.
    pub fn note_figure(&mut self, name: impl Into<String>, value: u64) {
        self.figures.push((name.into(), value));
    }

    /// Starts a shell command without waiting for it.
    pub fn spawn(&mut self, command: &str) -> Result<Job> {
        let id = self.next_job;
        self.next_job += 1;
        let events = subscribe(&self.waiting, id)?;
        self.send(&Frame::Spawn(id, command.to_owned()))?;
        Ok(Job { id, command: command.to_owned(), events, output: CommandOutput::default() })
    }

    /// What a job has printed and how it ended, if it has by now.
    pub fn ended(&mut self, job: &mut Job) -> Option<CommandOutput> {
        while let Ok(frame) = job.events.try_recv() {
            if let Some(output) = job.note(frame) {
                self.forget(job.id);
                return Some(output);
            }
        }
        None
    }

    /// Waits for a job's end, showing each piece of output to `watch` as it comes.
    pub fn wait(&mut self, mut job: Job, limit: Duration, mut watch: impl FnMut(&Frame)) -> Result<CommandOutput> {
        let limit = limit * self.patience;
        let deadline = Instant::now() + limit;
        loop {
            match job.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(frame) => {
                    watch(&frame);
                    if let Some(output) = job.note(frame) {
                        self.forget(job.id);
                        self.check_console(&job.command)?;
                        return Ok(output);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.kill(&job)?;
                    let printed = format!("{}{}", job.output.stdout, job.output.stderr);
                    bail!(
                        "`{}` did not end within {} s. It printed:\n{printed}{}",
                        job.command,
                        limit.as_secs(),
                        self.report()
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the guest died during `{}`{}", job.command, self.report())
                }
            }
        }
    }

    /// Ends a job with everything that it started in its process group.
    pub fn kill(&mut self, job: &Job) -> Result<()> {
        self.send(&Frame::Kill(job.id))
    }

    fn send(&mut self, frame: &Frame) -> Result<()> {
        frame.write(&mut self.wire).with_context(|| format!("the guest does not listen{}", self.report()))
    }

    fn forget(&mut self, id: u32) {
        if let Ok(mut waiting) = self.waiting.lock()
            && let Some(jobs) = waiting.as_mut()
        {
            jobs.remove(&id);
        }
    }

    /// A kernel fault fails the command that ran, even if the kernel goes on.
    fn check_console(&self, command: &str) -> Result<()> {
        let console = self.console();
        match KERNEL_FAULTS.iter().find(|fault| console.contains(*fault)) {
            Some(fault) => bail!("the guest's kernel reported \"{fault}\" by the end of `{command}`{}", self.report()),
            None => Ok(()),
        }
    }

    fn report(&self) -> String {
        console_report(self.run_dir.path())
    }
}

impl Shell for Guest {
    fn run(&mut self, command: &str, limit: Duration) -> Result<CommandOutput> {
        let job = self.spawn(command)?;
        self.wait(job, limit, |_| {})
    }

    fn patience(&self) -> u32 {
        self.patience
    }
}

impl Keep for Guest {
    fn ensure_sound(&mut self) -> Result<()> {
        kernel_log::ensure_quiet(self)?;
        let console = self.console();
        kernel_log::ensure_quiet_console(console.get(self.forgiven_length..).unwrap_or(&console))
    }

    fn take_figures(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.figures)
    }

    fn keep(&mut self) -> (PathBuf, String) {
        self.run_dir.disable_cleanup(true);
        for (name, command) in [("journal.log", "journalctl --no-pager -b --all"), ("dmesg.log", "dmesg")] {
            let text =
                self.run(command, JOURNAL_LIMIT).map_or_else(|error| format!("{error:#}"), |output| output.stdout);
            // Without it there is the console at least.
            let _ = fs::write(self.run_dir.path().join(name), text);
        }
        let _ = fs::write(self.run_dir.path().join("again.sh"), format!("#!/bin/sh\n{}\n", self.again));
        (self.run_dir.path().to_owned(), self.again.clone())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The namespace ends with its first process; a guest that is gone already is fine.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Job {
    /// Adds a frame to the output; the last one completes it.
    fn note(&mut self, frame: Frame) -> Option<CommandOutput> {
        match frame {
            Frame::Stdout(_, bytes) => self.output.stdout.push_str(&String::from_utf8_lossy(&bytes)),
            Frame::Stderr(_, bytes) => self.output.stderr.push_str(&String::from_utf8_lossy(&bytes)),
            Frame::Exit(_, status) => {
                self.output.status = status;
                return Some(std::mem::take(&mut self.output));
            }
            _ => {}
        }
        None
    }
}

/// Emulation is slower than hardware, all CPUs on one thread slower still, and other work may share the host.
fn patience(accel: Accel, machine: &GuestMachine) -> u32 {
    match (machine.time, accel) {
        (GuestTime::Real | GuestTime::Steady | GuestTime::Slow, Accel::Kvm) => 2,
        // A thread of the host for each virtual CPU.
        (GuestTime::Real, Accel::Tcg) => 6 + 3 * machine.nr_cpus,
        (GuestTime::Steady | GuestTime::Virtual | GuestTime::Slow, _) => 10 + 3 * machine.nr_cpus,
    }
}

/// The socket appears once QEMU runs.
fn connect(qemu: &mut Child, run_dir: &Path, limit: Duration) -> Result<UnixStream> {
    let path = run_dir.join(qemu::AGENT_SOCKET);
    let deadline = Instant::now() + limit;
    loop {
        match UnixStream::connect(&path) {
            Ok(wire) => return Ok(wire),
            Err(_) if Instant::now() < deadline && qemu.try_wait()?.is_none() => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error).context("QEMU did not start"),
        }
    }
}

fn boot_failure(error: RecvTimeoutError, limit: Duration) -> anyhow::Error {
    match error {
        RecvTimeoutError::Timeout => {
            anyhow::anyhow!("the guest did not answer within {} s of its start", limit.as_secs())
        }
        RecvTimeoutError::Disconnected => anyhow::anyhow!("the guest died while booting"),
    }
}

fn subscribe(waiting: &Waiting, id: u32) -> Result<Receiver<Frame>> {
    let (sender, receiver) = mpsc::channel();
    let mut waiting = waiting.lock().ok().context("a thread of the test rig panicked")?;
    waiting.as_mut().context("the guest is gone")?.insert(id, sender);
    Ok(receiver)
}

/// Distributes the frames of the guest until it ends, and then drops all channels, which ends all waiting.
fn listen(mut wire: UnixStream, waiting: Waiting) {
    thread::spawn(move || {
        while let Ok(frame) = Frame::read(&mut wire) {
            let Ok(mut waiting) = waiting.lock() else { return };
            if let Some(waiter) = waiting.as_mut().and_then(|jobs| jobs.get(&frame.job())) {
                // The receiver has stopped waiting.
                let _ = waiter.send(frame);
            }
        }
        if let Ok(mut waiting) = waiting.lock() {
            *waiting = None;
        }
    });
}

/// The last lines of the console and of QEMU's messages.
fn console_report(run_dir: &Path) -> String {
    let console = tail(&read_lossy(&run_dir.join(qemu::CONSOLE_LOG)), CONSOLE_TAIL_LINES);
    let emulator = tail(&read_lossy(&run_dir.join("qemu.log")), CONSOLE_TAIL_LINES);
    format!("\n--- end of the guest's console, in {} ---\n{console}{emulator}---", run_dir.display())
}

fn read_lossy(path: &PathBuf) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Copies a running command's output to our own as it comes.
pub fn show(frame: &Frame) {
    // A closed terminal must not stop the case.
    let _ = match frame {
        Frame::Stdout(_, bytes) => std::io::stdout().lock().write_all(bytes).and_then(|()| std::io::stdout().flush()),
        Frame::Stderr(_, bytes) => std::io::stderr().lock().write_all(bytes),
        _ => Ok(()),
    };
}
