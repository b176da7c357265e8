//! An instance of the kernel's tracing that nobody else uses, and that goes with this program.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use scherzo_i18n::{fill, gettext};

use super::format::EventFormat;
use super::pages::{TraceEvent, TraceLayout};
use crate::failure::{Failure, Kind};

/// Where it is mounted, newer kernels first.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "scherzo-record-";
const EVENTS: [&str; 3] = ["sched_switch", "sched_waking", "sched_process_fork"];
/// Memory of all CPUs' buffers together, and bounds of that of one.
const BUFFERS_KIB: usize = 64 << 10;
const BUFFER_KIB: (usize, usize) = (64, 4 << 10);

/// What could not be read or written.
type FileError = (PathBuf, io::Error);

/// It ends, and its directory is removed, when this is dropped.
pub(crate) struct TraceInstance {
    directory: PathBuf,
    layout: TraceLayout,
    pipes: Vec<(usize, File)>,
    /// Most pages that a CPU's buffer has.
    nr_pages: usize,
    page: Vec<u8>,
}

/// Removes the directory, unless the instance has taken it over.
struct NewDirectory(Option<PathBuf>);

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            let _ = fs::remove_dir(directory);
        }
    }
}

impl TraceInstance {
    /// Prepares an instance that records nothing yet. What an earlier program has left is removed.
    pub(crate) fn create() -> Result<Self, Failure> {
        let instances = MOUNTS.iter().map(|mount| Path::new(mount).join("instances")).find(|path| path.is_dir());
        let Some(instances) = instances else {
            let sentence = gettext(
                "The kernel's tracing is not mounted: `sudo mount -t tracefs tracefs {directory}` does that, if it is there.",
            );
            return Err(Failure::new(Kind::NotSupported, fill(&sentence, &[("directory", &MOUNTS[0])])));
        };
        Self::create_in(&instances).map_err(cannot_record)
    }

    fn create_in(instances: &Path) -> Result<Self, FileError> {
        remove_abandoned(instances);
        let directory = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| (directory.clone(), error))?;
        let mut new = NewDirectory(Some(directory.clone()));
        let layout = layout(&directory)?;
        let cpus = cpus(&directory)?;
        let buffer_kib = (BUFFERS_KIB / cpus.len().max(1)).clamp(BUFFER_KIB.0, BUFFER_KIB.1);
        write(&directory, "tracing_on", "0")?;
        // The clock of this program, and one for all CPUs.
        write(&directory, "trace_clock", "mono")?;
        write(&directory, "options/overwrite", "0")?;
        write(&directory, "buffer_size_kb", &buffer_kib.to_string())?;
        for event in EVENTS {
            write(&directory, &format!("events/sched/{event}/enable"), "1")?;
        }
        let open = |cpu: usize| {
            let path = directory.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path);
            file.map(|file| (cpu, file)).map_err(|error| (path, error))
        };
        let pipes = cpus.into_iter().map(open).collect::<Result<_, _>>()?;
        let page = vec![0; layout.page_size()];
        new.0 = None;
        Ok(Self { directory, nr_pages: buffer_kib * 1024 / page.len() + 1, layout, pipes, page })
    }

    /// Events are recorded from now on, or no longer.
    pub(crate) fn switch(&self, on: bool) -> Result<(), Failure> {
        write(&self.directory, "tracing_on", if on { "1" } else { "0" }).map_err(cannot_record)
    }

    /// Takes what has been recorded, of each CPU in the order of time.
    pub(crate) fn read(&mut self, events: &mut Vec<TraceEvent>) -> Result<(), Failure> {
        for (cpu, pipe) in &mut self.pipes {
            for _ in 0..self.nr_pages {
                let length = match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                    Err(error) => return Err(cannot_record((self.directory.join("trace_pipe_raw"), error))),
                };
                let malformed = || io::Error::from(ErrorKind::InvalidData);
                let read = self.layout.read(*cpu, &self.page[..length], events);
                read.map_err(|_| cannot_record((self.directory.join("trace_pipe_raw"), malformed())))?;
            }
        }
        Ok(())
    }

    /// Events that there was no room for.
    pub(crate) fn nr_lost(&self) -> u64 {
        let lost = |cpu: usize| {
            let stats = fs::read_to_string(self.directory.join(format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default();
            lost_in(&stats)
        };
        self.pipes.iter().map(|(cpu, _)| lost(*cpu)).sum()
    }
}

impl Drop for TraceInstance {
    /// An instance that has open files stays.
    fn drop(&mut self) {
        let _ = write(&self.directory, "tracing_on", "0");
        self.pipes.clear();
        if let Err(error) = fs::remove_dir(&self.directory) {
            let sentence = gettext("{directory} could not be removed: {error}.");
            crate::output::remark(&fill(&sentence, &[("directory", &self.directory.display()), ("error", &error)]));
        }
    }
}

fn cannot_record((path, error): FileError) -> Failure {
    let sentence = gettext("Cannot record, because of {path}: {error}.");
    Failure::new(Kind::Failure, fill(&sentence, &[("path", &path.display()), ("error", &error)]))
}

fn write(directory: &Path, file: &str, text: &str) -> Result<(), FileError> {
    let path = directory.join(file);
    fs::write(&path, text).map_err(|error| (path, error))
}

fn layout(directory: &Path) -> Result<TraceLayout, FileError> {
    let read = |file: &str| {
        let path = directory.join(file);
        read_at_once(&path).map(|text| EventFormat::parse(&text)).map_err(|error| (path, error))
    };
    let page = read("events/header_page")?;
    let [switch, waking, fork] = EVENTS.map(|event| read(&format!("events/sched/{event}/format")));
    let layout = TraceLayout::of(&page, &switch?, &waking?, &fork?);
    layout.ok_or_else(|| (directory.join("events/sched"), ErrorKind::Unsupported.into()))
}

/// The kernel gives `header_page` to the first `read()` only, however short that is.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; 16 << 10];
    let length = File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// Those that have buffers.
fn cpus(directory: &Path) -> Result<Vec<usize>, FileError> {
    let path = directory.join("per_cpu");
    let entries = fs::read_dir(&path).map_err(|error| (path, error))?;
    let cpu = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("cpu")?.parse().ok();
    let mut cpus: Vec<usize> = entries.flatten().filter_map(|entry| cpu(&entry.file_name())).collect();
    cpus.sort_unstable();
    Ok(cpus)
}

/// What programs have left that were killed.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn lost_in(stats: &str) -> u64 {
    let number = |line: &str| {
        let (key, number) = line.split_once(':')?;
        matches!(key, "overrun" | "commit overrun" | "dropped events").then(|| number.trim().parse::<u64>().ok())?
    };
    stats.lines().filter_map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_lost_counts() {
        let stats = "entries: 131\noverrun: 3\ncommit overrun: 1\nbytes: 8364\noldest event ts: 69633.104018\n\
                     now ts: 69633.415470\ndropped events: 20\nread events: 7\n";
        assert_eq!(lost_in(stats), 24);
        assert_eq!(lost_in("overrun: many\n"), 0);
    }
}
