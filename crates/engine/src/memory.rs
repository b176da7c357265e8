//! No page fault once attached: lock everything, and turn off what would unmap locked pages for a moment.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::kernel_file::KernelFile;

/// Compaction moves locked pages too while this is 1; touching one in flight is a page fault.
const COMPACT_UNEVICTABLE: &str = "/proc/sys/vm/compact_unevictable_allowed";
/// Stack that the scheduling loop may use without growing it.
const STACK_BYTES: usize = 256 << 10;

/// `vm.compact_unevictable_allowed`, open.
#[derive(Debug)]
pub struct CompactionSetting(Option<KernelFile>);

impl CompactionSetting {
    /// A kernel without compaction has no such file.
    pub fn open() -> Result<Self> {
        match KernelFile::open_writable(COMPACT_UNEVICTABLE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            file => Ok(Self(Some(file.with_context(|| format!("cannot open {COMPACT_UNEVICTABLE}"))?))),
        }
    }

    /// Saves the value and clears it.
    pub fn turn_off(&self) -> Result<CompactionOff<'_>> {
        let Some(file) = &self.0 else { return Ok(CompactionOff { before: None }) };
        let before = file.read()?;
        file.write("0")?;
        Ok(CompactionOff { before: Some((file, before)) })
    }
}

/// Compaction of locked memory is off. It is as it was before when this is dropped; if the engine is killed the daemon restores it.
#[derive(Debug)]
pub struct CompactionOff<'a> {
    before: Option<(&'a KernelFile, String)>,
}

impl Drop for CompactionOff<'_> {
    fn drop(&mut self) {
        let Some((file, before)) = &self.before else { return };
        if let Err(error) = file.write(before) {
            eprintln!("<4>compaction of locked memory stays off: {error:#}");
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

/// Where the kernel tells how much memory this process has.
pub const MEMORY_STATUS: &str = "/proc/self/statm";

/// Resident memory of this process in bytes, from [`MEMORY_STATUS`]; 0 if it cannot be read. Asked once, before attaching:
/// locked memory does not change any more.
pub fn resident_bytes(status: &KernelFile) -> u64 {
    let pages = status.read().ok().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
