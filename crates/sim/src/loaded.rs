//! A scheduler from a BPF source file that the user names: compiled over the same headers as this project's own, and loaded.
//!
//! The library cannot link to the functions of the program that loads it, since a program does not export them. So each function
//! is a pointer in the library (`sim_import_*`), for which the function's name is a macro; [`connect`] sets these pointers.

#![allow(unsafe_code)]

use std::env;
use std::ffi::c_void;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use libloading::{Library, Symbol};
use tempfile::TempDir;

use crate::abi::Ops;
use crate::kfuncs;
use crate::machine::WATCHDOG_MAX_NS;

/// What it is compiled with. The files are part of the program, so that types and callbacks agree with those it was built with.
const NATIVE: [(&str, &str); 10] = [
    ("include/scx/common.bpf.h", include_str!("../native/include/scx/common.bpf.h")),
    ("include/scx/constants.h", include_str!("../native/include/scx/constants.h")),
    ("include/scx/helpers.h", include_str!("../native/include/scx/helpers.h")),
    ("include/scx/kfuncs.h", include_str!("../native/include/scx/kfuncs.h")),
    ("include/scx/types.h", include_str!("../native/include/scx/types.h")),
    ("variables.h", include_str!("../native/variables.h")),
    ("loaded.c", include_str!("../native/loaded.c")),
    ("error.c", include_str!("../native/error.c")),
    ("maps.c", include_str!("../native/maps.c")),
    ("traps.c", include_str!("../native/traps.c")),
];

/// A value for a variable of a scheduler, as its loader sets one before it loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSetting {
    name: String,
    value: String,
}

impl SchedulerSetting {
    /// From `NAME=VALUE`, where the value is a number, `true` or `false`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once('=')?;
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|other| other.is_ascii_alphanumeric() || other == '_');
        let is_value =
            matches!(value, "true" | "false") || value.parse::<i64>().is_ok() || value.parse::<u64>().is_ok();
        (is_name && is_value).then(|| Self { name: name.to_owned(), value: value.to_owned() })
    }

    fn assignment(&self) -> String {
        format!("{} = {};", self.name, self.value)
    }
}

/// A scheduler that was compiled and loaded.
pub struct SourceScheduler {
    file: PathBuf,
    begin: unsafe extern "C" fn() -> *mut Ops,
    /// Its code is there for as long as this.
    _library: Library,
}

impl SourceScheduler {
    /// Compiles and loads a file. An error has the compiler's messages, or names what the scheduler needs and is not emulated.
    pub fn load(file: &Path, settings: &[SchedulerSetting]) -> Result<Self> {
        let file = fs::canonicalize(file).with_context(|| format!("cannot read {}", file.display()))?;
        let directory = TempDir::new().context("cannot make a directory to compile in")?;
        let object = compile(&file, settings, directory.path())?;
        // SAFETY: the library has no constructors; its functions run when they are called.
        let library = unsafe { Library::new(&object) }.context("cannot load what was compiled")?;
        connect(&library)?;
        // SAFETY: loaded.c defines the function with this type.
        let begin = *unsafe { library.get::<unsafe extern "C" fn() -> *mut Ops>(b"sim_begin\0") }?;
        let loaded = Self { file, begin, _library: library };
        loaded.check().with_context(|| format!("{} cannot run here", loaded.file.display()))?;
        Ok(loaded)
    }

    /// Its callbacks, with its memory as at the beginning.
    pub(crate) fn begin(&self) -> *const Ops {
        // SAFETY: the function changes the memory of this library only, which nobody else uses: the caller holds the lock of
        // `crate::run`, or has just loaded it.
        unsafe { (self.begin)() }
    }

    /// What `validate_ops()` would refuse, and what the emulated core does not have.
    fn check(&self) -> Result<()> {
        // SAFETY: the table is a variable of the library, which nobody changes meanwhile.
        let ops = unsafe { self.begin().as_ref() }.context("no scheduler is defined by SCX_OPS_DEFINE()")?;
        let unknown = ops.flags & !Ops::KNOWN_FLAGS;
        ensure!(unknown == 0, "flags 0x{unknown:x} of its sched_ext_ops are not emulated");
        let keeps_last = ops.has_flag(Ops::ENQ_LAST);
        ensure!(!keeps_last || ops.enqueue.is_some(), "SCX_OPS_ENQ_LAST requires ops.enqueue");
        let is_too_patient = u64::from(ops.timeout_ms) * 1_000_000 > WATCHDOG_MAX_NS;
        ensure!(!is_too_patient, "a timeout of {} ms is longer than SCX_WATCHDOG_MAX_TIMEOUT", ops.timeout_ms);
        let tracks_idleness = ops.update_idle.is_some() && !ops.has_flag(Ops::KEEP_BUILTIN_IDLE);
        ensure!(!tracks_idleness, "ops.update_idle without SCX_OPS_KEEP_BUILTIN_IDLE is not emulated");
        Ok(())
    }
}

impl fmt::Debug for SourceScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceScheduler").field(&self.file).finish()
    }
}

/// Makes a library of a file, in a directory.
fn compile(file: &Path, settings: &[SchedulerSetting], directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory.join("include/scx")).context("cannot make a directory for the headers")?;
    for (name, text) in NATIVE {
        fs::write(directory.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    let object = directory.join("scheduler.so");
    let compiler = env::var("BPF_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let assignments: Vec<String> = settings.iter().map(SchedulerSetting::assignment).collect();
    let imports = kfuncs::IMPORTS.iter().map(|import| format!("-D{0}=(*sim_import_{0})", import.name));
    let mut command = Command::new(&compiler);
    command
        // With -fcommon the pointers that the headers declare are the same ones in all files.
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-fcommon", "-fno-strict-aliasing", "-Wl,-z,defs,-Bsymbolic"])
        .args(["-Wno-everything", "-Werror=implicit-function-declaration"])
        .args(["-fsanitize=integer-divide-by-zero,shift-exponent,null,array-bounds", "-fno-sanitize-recover=all"])
        .args(["-DSIM_LOADED", "-Iinclude"])
        .arg(format!("-DSIM_SOURCE=\"{}\"", file.display()))
        .arg(format!("-DSIM_SETTINGS={}", assignments.join(" ")))
        .args(imports)
        .args(["loaded.c", "error.c", "maps.c", "traps.c", "-o"])
        .arg(&object)
        .current_dir(directory);
    let output = command.output().with_context(|| format!("cannot run {compiler}, which compiles schedulers"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} does not compile over what the simulator has of the kernel:\n{}", file.display(), said.trim_end());
    }
    Ok(object)
}

/// Sets the library's pointers to the functions of this program.
fn connect(library: &Library) -> Result<()> {
    for import in kfuncs::IMPORTS {
        let name = format!("sim_import_{}\0", import.name);
        // SAFETY: the headers declare the function, which the macro turns into a pointer of that name; no code of the library runs yet.
        unsafe {
            let pointer: Symbol<'_, *mut *const c_void> = library.get(name.as_bytes())?;
            **pointer = import.address;
        }
    }
    Ok(())
}
