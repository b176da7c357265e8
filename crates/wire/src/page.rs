//! Memory-mapped views of what the kernel side counts, read without a system call.
//!
//! The maps are BPF arrays created with `BPF_F_MMAPABLE`; the simulated engine uses a memory file of the same size.
//! Every word is an atomic, because the other side writes while we read.

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::NonNull;

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
        let file = tempfile::tempfile().unwrap();
        file.set_len(Mapping::<CpuStats>::bytes(3).unwrap() as u64).unwrap();
        let writer = Mapping::<CpuStats>::read_write(&file, 3).unwrap();
        let reader = Mapping::<CpuStats>::read_only(&file, 3).unwrap();
        writer.as_slice()[2].counters[5].store(41, Ordering::Relaxed);
        assert_eq!(reader.as_slice()[2].counters[5].load(Ordering::Relaxed), 41);
        assert_eq!(reader.as_slice().len(), 3);
    }
}
