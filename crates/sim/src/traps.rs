//! Operations that C does not define end the program, with what was run and where it happened.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::path::Path;

thread_local! {
    /// What runs: scenario, seed and mode.
    static RUN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes what runs from now on.
pub fn note_run(what: String) {
    RUN.set(what);
}

/// What runs.
pub fn current_run() -> String {
    RUN.with_borrow(Clone::clone)
}

/// BPF would go on with a result that nobody has thought of.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sim_trap(what: *const c_char, file: *const c_char, line: u32) -> ! {
    // SAFETY: the callers in traps.c pass strings that the compiler has made.
    let (what, file) = unsafe { (CStr::from_ptr(what).to_string_lossy(), CStr::from_ptr(file).to_string_lossy()) };
    let file = Path::new(&*file).file_name().unwrap_or_default().display().to_string();
    eprintln!("{what} in {file}, line {line}: {}", current_run());
    std::process::abort();
}
