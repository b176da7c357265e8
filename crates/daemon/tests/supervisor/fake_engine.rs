//! An engine that behaves, or misbehaves, as its file name says. It lies in `usr/libexec` of a pretended host, and
//! loads into that host's pretended kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use scherzo_daemon::engine::simulated::Tree;
use scherzo_host::Root;
use scherzo_wire::channel::{self, Received};
use scherzo_wire::layout::{ControlPage, CpuStats, WIRE_VERSION};
use scherzo_wire::message::{ExitKind, FailKind, ToDaemon, ToEngine};
use scherzo_wire::page::{Mapping, Shared};

fn main() -> io::Result<()> {
    let path = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let host = path.ancestors().nth(3).unwrap_or(&path).to_owned();
    let engine = FakeEngine { tree: Tree::at(Root::new(&host)), name, loaded: false };
    leave_traces(&host)?;
    engine.run()
}

struct FakeEngine {
    tree: Tree,
    name: String,
    loaded: bool,
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

    fn load(&mut self) -> io::Result<()> {
        match self.name.as_str() {
            "hangs" => loop {
                std::thread::park();
            },
            "meets-malformed-btf" => {
                let text = "scx_bpf_kick_cpu".to_owned();
                say(&ToDaemon::Failed { kind: FailKind::MalformedBtf, text })?;
                std::process::exit(1);
            }
            "brings-no-pages" => return say(&loaded()),
            _ => {}
        }
        self.tree.load("scherzo_fake")?;
        self.loaded = true;
        let pages = [page::<ControlPage>()?, page::<CpuStats>()?];
        channel::send(rustix::stdio::stdin(), &loaded().encode(), &[pages[0].as_fd(), pages[1].as_fd()])
    }

    fn unload(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.loaded) { self.tree.unload() } else { Ok(()) }
    }
}

fn say(message: &ToDaemon) -> io::Result<()> {
    channel::send(rustix::stdio::stdin(), &message.encode(), &[])
}

/// Shows the tests in what surroundings it was started.
fn leave_traces(host: &Path) -> io::Result<()> {
    let mut nr_leaked = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let is_standard = ["0", "1", "2"].iter().any(|name| path.ends_with(name));
        let target = std::fs::read_link(&path).unwrap_or_default().to_string_lossy().into_owned();
        nr_leaked += usize::from(!is_standard && (target.starts_with("socket:") || target.starts_with("anon_inode:")));
    }
    let text = format!("environment {} leaked {nr_leaked}", std::env::vars_os().count());
    std::fs::write(host.join("traces"), text)?;
    std::fs::write(host.join("pid"), std::process::id().to_string())
}

fn loaded() -> ToDaemon {
    ToDaemon::Loaded { nr_cpus: 1, load_us: 1_000, ops: "scherzo_fake".to_owned() }
}

fn page<T: Shared>() -> io::Result<OwnedFd> {
    let fd = memfd_create(c"fake", MemfdFlags::CLOEXEC)?;
    ftruncate(&fd, Mapping::<T>::bytes(1).unwrap_or_default() as u64)?;
    Ok(fd)
}
