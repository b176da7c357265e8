//! Where the engine's memory comes from.
//!
//! A page fault in the thread that schedules everything else can deadlock the machine, so nothing here may grow once the
//! scheduler is attached. Rust's allocations come from one static arena behind a buddy allocator, which is prefaulted
//! and locked before attaching ([`crate::memory`]). libbpf allocates through the C library while it loads, and is given
//! that back afterwards; its calls are counted as well, by interposing the C library's entry points. After attach both
//! counters stand still: [`heap_ops`] is exported, and the tests hold it to zero.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use buddy_alloc::{BuddyAllocParam, FastAllocParam, NonThreadsafeAlloc};

/// Memory for the policy's tables (most of it), the skeleton and small things.
const BUDDY_BYTES: usize = 12 << 20;
/// Memory for allocations up to 64 bytes.
const FAST_BYTES: usize = 256 << 10;
/// Smallest block of the buddy allocator.
const LEAF_BYTES: usize = 128;

#[repr(C, align(4096))]
struct Arena<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: only the allocator touches the memory, and the engine has one thread.
unsafe impl<const N: usize> Sync for Arena<N> {}

static BUDDY: Arena<BUDDY_BYTES> = Arena(UnsafeCell::new([0; BUDDY_BYTES]));
static FAST: Arena<FAST_BYTES> = Arena(UnsafeCell::new([0; FAST_BYTES]));
static NR_HEAP_OPS: AtomicU64 = AtomicU64::new(0);

struct ArenaAllocator(NonThreadsafeAlloc);

// The test harness has several threads.
#[cfg_attr(not(test), global_allocator)]
static ALLOCATOR: ArenaAllocator = ArenaAllocator(NonThreadsafeAlloc::new(
    FastAllocParam::new(FAST.0.get().cast(), FAST_BYTES),
    BuddyAllocParam::new(BUDDY.0.get().cast(), BUDDY_BYTES, LEAF_BYTES),
));

/// Allocations and releases so far, Rust's and the C library's together.
pub fn heap_ops() -> u64 {
    NR_HEAP_OPS.load(Ordering::Relaxed)
}

/// The largest and the smallest blocks that are looked for to be given back, and how many.
const LARGEST_FREE_BYTES: usize = 8 << 20;
const SMALLEST_FREE_BYTES: usize = 64 << 10;
const NR_FREE_BLOCKS: usize = BUDDY_BYTES / SMALLEST_FREE_BYTES;
const PAGE_BYTES: usize = 4096;

/// Gives the pages of free blocks back to the kernel: what the arena was used for while the scheduler was prepared would otherwise
/// stay resident. They come back, as zeroes, when they are used again.
pub fn give_back_free() {
    let mut blocks = [(std::ptr::null_mut::<u8>(), 0); NR_FREE_BLOCKS];
    let (mut nr_blocks, mut size) = (0, LARGEST_FREE_BYTES);
    while size >= SMALLEST_FREE_BYTES && nr_blocks < NR_FREE_BLOCKS {
        let Ok(layout) = Layout::from_size_align(size, LEAF_BYTES) else { return };
        // SAFETY: the size is not zero.
        let block = unsafe { std::alloc::alloc(layout) };
        if block.is_null() {
            size /= 2;
            continue;
        }
        blocks[nr_blocks] = (block, size);
        nr_blocks += 1;
    }
    for (block, size) in blocks[..nr_blocks].iter().copied() {
        let whole = block.wrapping_add(block.align_offset(PAGE_BYTES));
        let nr_pages = (block.addr() + size).saturating_sub(whole.addr()) / PAGE_BYTES;
        // SAFETY: whole pages of a block that nobody else has, and that has no contents; and it is released as it was allocated.
        unsafe {
            libc::madvise(whole.cast(), nr_pages * PAGE_BYTES, libc::MADV_DONTNEED);
            std::alloc::dealloc(block, Layout::from_size_align_unchecked(size, LEAF_BYTES));
        }
    }
}

fn count() {
    NR_HEAP_OPS.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: forwards to the buddy allocator, which is sound for one thread; the engine starts no other.
unsafe impl GlobalAlloc for ArenaAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // Small blocks are aligned to their size. Nothing here asks for more, and what did would fail, not misbehave.
        if layout.align() > LEAF_BYTES {
            return std::ptr::null_mut();
        }
        let size = layout.size().max(layout.align());
        // SAFETY: a non-zero size with its natural alignment.
        unsafe { self.0.alloc(Layout::from_size_align_unchecked(size, layout.align())) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller hands back what `alloc` gave.
        unsafe { self.0.dealloc(ptr, layout) }
    }
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_free(ptr: *mut c_void);
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// Counts, then allocates as the C library does.
#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own implementation under its other name.
    unsafe { __libc_malloc(size) }
}

/// Counts, then releases as the C library does.
///
/// # Safety
/// As `free(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(ptr: *mut c_void) {
    count();
    // SAFETY: the caller's promise, passed on.
    unsafe { __libc_free(ptr) }
}

/// Counts, then allocates as the C library does.
#[unsafe(no_mangle)]
extern "C" fn calloc(nr: usize, size: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own implementation under its other name.
    unsafe { __libc_calloc(nr, size) }
}

/// Counts, then reallocates as the C library does.
///
/// # Safety
/// As `realloc(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    count();
    // SAFETY: the caller's promise, passed on.
    unsafe { __libc_realloc(ptr, size) }
}

/// Counts, then allocates as the C library does.
#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own implementation under its other name.
    unsafe { __libc_memalign(align, size) }
}

/// Counts, then allocates as the C library does.
#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

/// Counts, then allocates as the C library does.
///
/// # Safety
/// As `posix_memalign(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let ptr = memalign(align, size);
    if ptr.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller promises that `out` may be written.
    unsafe { out.write(ptr) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arena_serves() {
        let before = heap_ops();
        let layout = Layout::new::<[u8; 100]>();
        // SAFETY: released with the same layout, and no other thread uses the arena.
        unsafe { ALLOCATOR.dealloc(ALLOCATOR.alloc(layout), layout) };
        assert!(heap_ops() >= before + 2);
        let before = heap_ops();
        // SAFETY: allocated and released once.
        unsafe { libc::free(libc::malloc(100)) };
        assert!(heap_ops() >= before + 2);

        for align in [16, 64, 128] {
            let layout = Layout::from_size_align(24, align).unwrap();
            // SAFETY: released with the same layout.
            unsafe {
                let ptr = ALLOCATOR.alloc(layout);
                assert_eq!(ptr.align_offset(align), 0);
                ALLOCATOR.dealloc(ptr, layout);
            }
        }
        // SAFETY: a valid layout; nothing is allocated.
        assert!(unsafe { ALLOCATOR.alloc(Layout::from_size_align(24, 4096).unwrap()) }.is_null());
    }
}
