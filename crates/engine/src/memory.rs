//! No page fault once attached: lock everything, and turn off what would unmap locked pages for a moment.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};

/// Compaction moves locked pages too while this is 1; touching one in flight is a page fault.
const COMPACT_UNEVICTABLE: &str = "/proc/sys/vm/compact_unevictable_allowed";
/// Stack that the scheduling loop may use without growing it.
const STACK_BYTES: usize = 256 << 10;

/// `vm.compact_unevictable_allowed` as it was, restored when dropped. If the engine is killed the daemon restores it.
#[derive(Debug)]
pub struct CompactionOff {
    /// `None` on a kernel without compaction.
    before: Option<String>,
}

impl CompactionOff {
    /// Saves the value and clears it.
    pub fn new() -> Result<Self> {
        let before = match fs::read_to_string(COMPACT_UNEVICTABLE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { before: None }),
            before => before.with_context(|| format!("cannot read {COMPACT_UNEVICTABLE}"))?,
        };
        fs::write(COMPACT_UNEVICTABLE, "0").with_context(|| format!("cannot write {COMPACT_UNEVICTABLE}"))?;
        Ok(Self { before: Some(before.trim().to_owned()) })
    }
}

impl Drop for CompactionOff {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        if let Err(error) = fs::write(COMPACT_UNEVICTABLE, before) {
            eprintln!("<4>cannot restore {COMPACT_UNEVICTABLE} to {before}: {error}");
        }
    }
}

/// Gives back what loading used and nothing needs any more.
pub fn trim() {
    // SAFETY: no pointer into the released memory exists; the call only returns free pages.
    unsafe { libc::malloc_trim(0) };
}

/// Turns huge pages off for this process. Each is resident as a whole, however little of it is used: a standby engine would
/// take up to two megabytes more, depending on where its memory lies. And the kernel's huge-page daemon unmaps locked memory,
/// too, while it makes huge pages of it.
pub fn avoid_huge_pages() {
    // SAFETY: the call takes plain numbers and changes a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Gives back what loading used, then makes everything that is left, and all that is mapped later, resident for good.
pub fn lock_all() -> Result<()> {
    trim();
    grow_stack();
    rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT | rustix::mm::MlockAllFlags::FUTURE)
        .map_err(io::Error::from)
        .context("cannot lock the engine's memory: it needs LimitMEMLOCK=infinity or CAP_IPC_LOCK")
}

#[inline(never)]
#[expect(clippy::large_stack_arrays, reason = "using up stack is the point")]
fn grow_stack() {
    let stack = [1_u8; STACK_BYTES];
    std::hint::black_box(&stack);
}

/// What the engine has cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Minor and major page faults.
    pub nr_page_faults: u64,
    /// CPU time of the process.
    pub cpu_time: Duration,
}

impl Usage {
    /// Asks the kernel; allocates nothing.
    pub fn now() -> Self {
        // SAFETY: `rusage` is plain data for which all zeroes is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` may be written.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
            return Self::default();
        }
        let duration = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
        Self {
            nr_page_faults: (usage.ru_minflt + usage.ru_majflt) as u64,
            cpu_time: duration(usage.ru_utime) + duration(usage.ru_stime),
        }
    }
}

/// Resident memory of this process in bytes; 0 if it cannot be read. Asked once, before attaching: opening a file may
/// wait for memory, and locked memory does not change any more.
pub fn resident_bytes() -> u64 {
    let mut text = [0_u8; 128];
    let Ok(file) = rustix::fs::open(
        "/proc/self/statm",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    ) else {
        return 0;
    };
    let len = rustix::io::read(&file, &mut text).unwrap_or(0);
    let pages = str::from_utf8(&text[..len]).ok().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
