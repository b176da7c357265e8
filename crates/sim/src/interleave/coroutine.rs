//! Calls that stop in the middle and go on later: coroutine.c.

#![allow(unsafe_code)]

use std::ffi::c_void;

/// `struct sim_coroutine`.
#[repr(C)]
pub struct RawCoroutine {
    _private: [u8; 0],
}

// SAFETY: the signatures are those of coroutine.c.
unsafe extern "C" {
    fn sim_coroutine_new() -> *mut RawCoroutine;
    fn sim_coroutine_free(coroutine: *mut RawCoroutine);
    fn sim_coroutine_begin(coroutine: *mut RawCoroutine, body: extern "C" fn(*mut c_void), argument: *mut c_void);
    fn sim_coroutine_resume(coroutine: *mut RawCoroutine) -> bool;
    fn sim_coroutine_stop(coroutine: *mut RawCoroutine);
    fn sim_coroutine_has(coroutine: *const RawCoroutine, address: *const c_void) -> bool;
}

/// A stack, and what runs there.
pub struct Coroutine(*mut RawCoroutine);

impl Default for Coroutine {
    fn default() -> Self {
        // SAFETY: it has no preconditions, and ends the program if there is no memory.
        Self(unsafe { sim_coroutine_new() })
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        // SAFETY: nobody resumes it any more; what stands on the stack is forgotten, and owns nothing but memory.
        unsafe { sim_coroutine_free(self.0) };
    }
}

impl Coroutine {
    /// Where it is.
    pub const fn raw(&self) -> *mut RawCoroutine {
        self.0
    }

    /// Has it run `body` when it is resumed next.
    pub fn begin<T>(&mut self, body: extern "C" fn(*mut T), argument: *mut T) {
        // SAFETY: pointers of any type are passed alike.
        unsafe {
            let body = std::mem::transmute::<extern "C" fn(*mut T), extern "C" fn(*mut c_void)>(body);
            sim_coroutine_begin(self.0, body, argument.cast());
        }
    }

    /// Whether the address is on its stack.
    pub fn has(&self, address: usize) -> bool {
        // SAFETY: it only compares addresses.
        unsafe { sim_coroutine_has(self.0, address as *const c_void) }
    }
}

/// Goes on with it until it stops; false once it is over.
pub fn resume(coroutine: *mut RawCoroutine) -> bool {
    // SAFETY: the caller has begun it, and holds no reference that it uses.
    unsafe { sim_coroutine_resume(coroutine) }
}

/// From within: back to where it was resumed.
pub fn stop(coroutine: *mut RawCoroutine) {
    // SAFETY: this runs on its stack.
    unsafe { sim_coroutine_stop(coroutine) };
}
