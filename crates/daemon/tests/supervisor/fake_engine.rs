//! An engine that behaves, or misbehaves, as its file name says. It lies in `usr/libexec` of a pretended host, and
//! loads into that host's pretended kernel.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use scherzo_daemon::engine::simulated::Tree;
use scherzo_host::{Root, SchedExt};
use scherzo_wire::channel::{self, Received};
use scherzo_wire::layout::{ControlPage, CpuStats, WIRE_VERSION};
use scherzo_wire::message::{ExitKind, FailKind, ToDaemon, ToEngine};
use scherzo_wire::page::memory_file;

/// Long enough for the tests to have the engine killed meanwhile.
const LONG_PREPARATION: Duration = Duration::from_secs(1);

fn main() -> io::Result<()> {
    let path = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let host = path.ancestors().nth(3).unwrap_or(&path).to_owned();
    let engine = FakeEngine { tree: Tree::at(Root::new(&host)), host, name, loaded: false, prepared: false };
    engine.leave_traces()?;
    engine.run()
}

struct FakeEngine {
    tree: Tree,
    host: PathBuf,
    name: String,
    loaded: bool,
    prepared: bool,
}

impl FakeEngine {
    fn run(mut self) -> io::Result<()> {
        match self.name.as_str() {
            "ends" => std::process::exit(7),
            "babbles" => channel::send(rustix::stdio::stdin(), &[0x55; 1024], &[])?,
            "of-another-version" => say(&ToDaemon::Hello { wire_version: WIRE_VERSION + 1 })?,
            _ => say(&ToDaemon::Hello { wire_version: WIRE_VERSION })?,
        }
        loop {
            poll(&mut [PollFd::new(&rustix::stdio::stdin(), PollFlags::IN)], None)?;
            let message = match channel::receive(rustix::stdio::stdin())? {
                Received::Closed => return self.unload(),
                Received::Packet(packet, _) => ToEngine::decode(&packet[..]).map_err(io::Error::other)?,
            };
            match message {
                ToEngine::Prepare(_) => self.prepare()?,
                ToEngine::Load(_) => self.load()?,
                ToEngine::Apply { seq, .. } | ToEngine::Refresh { seq } => say(&ToDaemon::Done { seq })?,
                ToEngine::Unload => {
                    self.unload()?;
                    let text = String::new();
                    return say(&ToDaemon::Exited { kind: ExitKind::Unloaded, code: 0, text });
                }
            }
        }
    }

    /// As a standby engine.
    fn prepare(&mut self) -> io::Result<()> {
        self.prepared = true;
        self.leave("standby-pid", &std::process::id().to_string())?;
        match self.name.as_str() {
            "prepares-badly" => {
                say(&ToDaemon::Failed { kind: FailKind::Other, text: "no memory".to_owned() })?;
                std::process::exit(1);
            }
            "prepares-slowly" => std::thread::sleep(LONG_PREPARATION),
            _ => {}
        }
        say(&ToDaemon::Prepared)
    }

    fn load(&mut self) -> io::Result<()> {
        self.leave("pid", &std::process::id().to_string())?;
        match self.name.as_str() {
            "hangs" => loop {
                std::thread::park();
            },
            "meets-malformed-btf" => {
                let text = "scx_bpf_kick_cpu".to_owned();
                say(&ToDaemon::Failed { kind: FailKind::MalformedBtf, text })?;
                std::process::exit(1);
            }
            "prepares-in-vain" if self.prepared => {
                let text = "CPUs came or went".to_owned();
                say(&ToDaemon::Failed { kind: FailKind::Outdated, text })?;
                std::process::exit(0);
            }
            "brings-no-pages" => return say(&loaded()),
            _ => {}
        }
        self.tree.load("scherzo_fake")?;
        self.loaded = true;
        let pages = [memory_file::<ControlPage>(c"fake", 1)?, memory_file::<CpuStats>(c"fake", 1)?];
        channel::send(rustix::stdio::stdin(), &loaded().encode(), &[pages[0].as_fd(), pages[1].as_fd()])
    }

    fn unload(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.loaded) { self.tree.unload() } else { Ok(()) }
    }

    /// Shows the tests in what surroundings it was started, and whether as a standby engine, while another is loaded.
    fn leave_traces(&self) -> io::Result<()> {
        let mut nr_leaked = 0;
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let path = entry?.path();
            let is_standard = ["0", "1", "2"].iter().any(|name| path.ends_with(name));
            let target = std::fs::read_link(&path).unwrap_or_default().to_string_lossy().into_owned();
            let is_leak = target.starts_with("socket:") || target.starts_with("anon_inode:");
            nr_leaked += usize::from(!is_standard && is_leak);
        }
        let text = format!("environment {} leaked {nr_leaked}", std::env::vars_os().count());
        let kernel = SchedExt::read(&Root::new(&self.host)).map_err(io::Error::other)?;
        if kernel.is_some_and(|kernel| kernel.ops.is_some()) {
            return self.leave("standby-traces", &text);
        }
        self.leave("traces", &text)?;
        self.leave("pid", &std::process::id().to_string())
    }

    /// Nobody reads half of it.
    fn leave(&self, name: &str, text: &str) -> io::Result<()> {
        let unfinished = self.host.join(format!("{name}.{}", std::process::id()));
        std::fs::write(&unfinished, text)?;
        std::fs::rename(unfinished, self.host.join(name))
    }
}

fn say(message: &ToDaemon) -> io::Result<()> {
    channel::send(rustix::stdio::stdin(), &message.encode(), &[])
}

fn loaded() -> ToDaemon {
    ToDaemon::Loaded { nr_cpus: 1, load_us: 1_000 }
}
