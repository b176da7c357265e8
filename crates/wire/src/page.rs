//! Memory-mapped views of what the kernel side counts, read without a system call.
//!
//! The maps are BPF arrays created with `BPF_F_MMAPABLE`; the simulated engine uses a memory file of the same size.
//! Every word is an atomic, because the other side writes while we read.
//!
//! Who reads memory behind the end of a file is ended by SIGBUS. So nothing is mapped but what has the size and must keep it,
//! whatever the process does that it came from: a BPF map, whose size the kernel compares when it is mapped, or a memory file
//! that is sealed against shrinking.

use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::{ControlPage, CpuStats, Slot};

/// Types that may be viewed in shared memory: all words atomic, every bit pattern valid.
///
/// # Safety
/// The type must be `repr(C)`, made of atomics and reserved integers only, and valid for any bytes.
pub unsafe trait Shared {}

// SAFETY: repr(C), only atomics and reserved integers.
unsafe impl Shared for ControlPage {}
// SAFETY: repr(C), only atomics and reserved integers.
unsafe impl Shared for CpuStats {}
// SAFETY: repr(C), only atomics and reserved integers.
unsafe impl Shared for Slot {}

/// A mapping of `len` elements of `T`, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping<T: Shared> {
    base: NonNull<T>,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: the memory is shared with another process anyway; every access goes through atomics.
unsafe impl<T: Shared> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Mapping<T> {}

impl<T: Shared> Mapping<T> {
    /// Maps for reading.
    pub fn read_only(fd: impl AsFd, len: usize) -> io::Result<Self> {
        Self::new(fd, len, ProtFlags::READ)
    }

    /// Maps for reading and writing.
    pub fn read_write(fd: impl AsFd, len: usize) -> io::Result<Self> {
        Self::new(fd, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn new(fd: impl AsFd, len: usize, protection: ProtFlags) -> io::Result<Self> {
        let bytes = Self::bytes(len).ok_or(io::ErrorKind::InvalidInput)?;
        ensure_size(fd.as_fd(), bytes)?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing else refers to it.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, len, element: PhantomData })
    }

    /// Size of a mapping of `len` elements: whole pages, at least one; `None` if it cannot exist.
    #[must_use]
    pub fn bytes(len: usize) -> Option<usize> {
        size_of::<T>().checked_mul(len)?.max(1).checked_next_multiple_of(rustix::param::page_size())
    }

    /// The elements.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping holds `len` elements, is aligned to a page, lives as long as `self`, and `Shared`
        // promises that any bytes are valid and only atomics change.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

/// A memory file for `len` elements, which cannot shrink.
pub fn memory_file<T: Shared>(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, Mapping::<T>::bytes(len).ok_or(io::ErrorKind::InvalidInput)? as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK)?;
    Ok(fd)
}

/// Fails unless so many bytes are there and must stay.
fn ensure_size(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let Ok(seals) = fcntl_get_seals(fd) else {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        let is_map = kind.as_os_str() == "anon_inode:bpf-map";
        return is_map.then_some(()).ok_or_else(|| invalid("neither a BPF map nor a memory file"));
    };
    if !seals.contains(SealFlags::SHRINK) {
        return Err(invalid("a memory file that may shrink"));
    }
    let is_there = u64::try_from(fstat(fd)?.st_size).is_ok_and(|size| size >= bytes as u64);
    is_there.then_some(()).ok_or_else(|| invalid("a memory file that is too short"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the shared page is {what}"))
}

impl<T: Shared> Drop for Mapping<T> {
    fn drop(&mut self) {
        if let Some(bytes) = Self::bytes(self.len) {
            // SAFETY: exactly what `new` mapped; no reference outlives `self`.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn writers_and_readers_share() {
        let file = memory_file::<CpuStats>(c"test", 3).unwrap();
        let writer = Mapping::<CpuStats>::read_write(&file, 3).unwrap();
        let reader = Mapping::<CpuStats>::read_only(&file, 3).unwrap();
        writer.as_slice()[2].counters[5].store(41, Ordering::Relaxed);
        assert_eq!(reader.as_slice()[2].counters[5].load(Ordering::Relaxed), 41);
        assert_eq!(reader.as_slice().len(), 3);
        ftruncate(&file, 0).unwrap_err();
    }

    #[test]
    fn what_may_end_before_its_reader_does_is_not_mapped() {
        let refusal = |fd: BorrowedFd<'_>, len| Mapping::<CpuStats>::read_only(fd, len).unwrap_err().to_string();
        let short = memory_file::<CpuStats>(c"test", 1).unwrap();
        assert!(refusal(short.as_fd(), 1_000).contains("too short"));
        let shrinking = memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&shrinking, 1 << 20).unwrap();
        assert!(refusal(shrinking.as_fd(), 1).contains("may shrink"));
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(refusal(file.as_fd(), 1).contains("neither"));
    }
}
