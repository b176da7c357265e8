//! Tries the filters of system calls, as `scherzo-engine --try-filters`, for the tests: whoever runs this sees of each call what
//! it returns without a filter and at each stage. None of the calls changes anything.

use std::process::ExitCode;

use anyhow::Result;
use libc::{c_long, c_void};

use crate::filter::{Filters, bpf_command};
use crate::signal;

/// What a call returned, or its error number.
pub type CallOutcome = Result<c_long, i32>;

/// What the filters do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// Denied from the first stage on.
    Denied,
    /// Denied once attached.
    UntilAttached,
    /// Never denied.
    Allowed,
}

/// A call that can be tried.
pub struct TrialCall {
    /// Its name, and what of its arguments matters.
    pub name: &'static str,
    /// What the filters do with it.
    pub expected: ExpectedOutcome,
    /// Makes it.
    pub make: fn() -> CallOutcome,
}

const fn call(name: &'static str, expected: ExpectedOutcome, make: fn() -> CallOutcome) -> TrialCall {
    TrialCall { name, expected, make }
}

/// Where a descriptor is wanted, and none is open.
const NO_FD: c_long = -1;
/// No process has that number.
const NO_PID: c_long = 0x7fff_fff0;
const SOME_PATH: *const libc::c_char = c"/proc/self/status".as_ptr();

/// Every kind of call that the filters deny, and those that they allow by their arguments.
pub const CALLS: &[TrialCall] = &[
    call("socket", ExpectedOutcome::Denied, || closed(raw(libc::SYS_socket, [libc::AF_UNIX.into(), 2, 0]))),
    call("socketpair", ExpectedOutcome::Denied, || raw(libc::SYS_socketpair, [libc::AF_UNIX.into(), 2, 0])),
    call("connect", ExpectedOutcome::Denied, || raw(libc::SYS_connect, [NO_FD, 0, 0])),
    call("bind", ExpectedOutcome::Denied, || raw(libc::SYS_bind, [NO_FD, 0, 0])),
    call("accept4", ExpectedOutcome::Denied, || raw(libc::SYS_accept4, [NO_FD, 0, 0])),
    call("execve", ExpectedOutcome::Denied, || raw(libc::SYS_execve, [c"".as_ptr() as c_long, 0, 0])),
    call("execveat", ExpectedOutcome::Denied, || raw(libc::SYS_execveat, [NO_FD, c"".as_ptr() as c_long, 0])),
    // These flags exclude each other: without a filter the kernel refuses them, and no process is made.
    call("clone", ExpectedOutcome::Denied, || raw(libc::SYS_clone, [libc::CLONE_SIGHAND.into(), 0, 0])),
    call("clone3", ExpectedOutcome::Denied, || raw(libc::SYS_clone3, [0, 0, 0])),
    call("ptrace", ExpectedOutcome::Denied, || raw(libc::SYS_ptrace, [libc::PTRACE_PEEKDATA.into(), NO_PID, 0])),
    call("process_vm_writev", ExpectedOutcome::Denied, || raw(libc::SYS_process_vm_writev, [NO_PID, 0, 0])),
    call("pidfd_open", ExpectedOutcome::Denied, || raw(libc::SYS_pidfd_open, [NO_PID, 0, 0])),
    call("pidfd_getfd", ExpectedOutcome::Denied, || raw(libc::SYS_pidfd_getfd, [NO_FD, 0, 0])),
    call("kill", ExpectedOutcome::Denied, || raw(libc::SYS_kill, [NO_PID, 0, 0])),
    call("tgkill of another", ExpectedOutcome::Denied, || raw(libc::SYS_tgkill, [NO_PID, NO_PID, 0])),
    call("tgkill of itself", ExpectedOutcome::Allowed, || {
        raw(libc::SYS_tgkill, [std::process::id().into(), rustix::thread::gettid().as_raw_nonzero().get().into(), 0])
    }),
    call("openat", ExpectedOutcome::Denied, || closed(raw(libc::SYS_openat, [NO_FD, SOME_PATH as c_long, 0]))),
    call("openat2", ExpectedOutcome::Denied, || raw(libc::SYS_openat2, [NO_FD, SOME_PATH as c_long, 0])),
    call("name_to_handle_at", ExpectedOutcome::Denied, || {
        raw(libc::SYS_name_to_handle_at, [NO_FD, SOME_PATH as c_long, 0])
    }),
    call("unlinkat", ExpectedOutcome::Denied, || raw(libc::SYS_unlinkat, [NO_FD, c"".as_ptr() as c_long, 0])),
    call("renameat2", ExpectedOutcome::Denied, || raw(libc::SYS_renameat2, [NO_FD, c"".as_ptr() as c_long, NO_FD])),
    call("fchmodat", ExpectedOutcome::Denied, || raw(libc::SYS_fchmodat, [NO_FD, c"".as_ptr() as c_long, 0])),
    call("mount", ExpectedOutcome::Denied, || raw(libc::SYS_mount, [0, 0, 0])),
    call("setuid", ExpectedOutcome::Denied, || raw(libc::SYS_setuid, [NO_FD, 0, 0])),
    call("ioctl", ExpectedOutcome::Denied, || raw(libc::SYS_ioctl, [NO_FD, 0, 0])),
    call("memfd_create", ExpectedOutcome::Denied, || {
        closed(raw(libc::SYS_memfd_create, [c"".as_ptr() as c_long, 0, 0]))
    }),
    call("perf_event_open", ExpectedOutcome::Denied, || raw(libc::SYS_perf_event_open, [0, 0, NO_FD])),
    call("sched_setscheduler", ExpectedOutcome::Denied, || raw(libc::SYS_sched_setscheduler, [NO_PID, 0, 0])),
    call("mmap for execution", ExpectedOutcome::Denied, || map(libc::PROT_EXEC)),
    call("mmap", ExpectedOutcome::Allowed, || map(libc::PROT_READ)),
    call("mprotect for execution", ExpectedOutcome::Denied, || raw(libc::SYS_mprotect, [0, 0, libc::PROT_EXEC.into()])),
    call("mprotect", ExpectedOutcome::Allowed, || raw(libc::SYS_mprotect, [0, 0, libc::PROT_READ.into()])),
    call("bpf PROG_LOAD", ExpectedOutcome::Denied, || bpf(bpf_command::PROG_LOAD)),
    call("bpf MAP_CREATE", ExpectedOutcome::Denied, || bpf(bpf_command::MAP_CREATE)),
    call("bpf BTF_LOAD", ExpectedOutcome::Denied, || bpf(bpf_command::BTF_LOAD)),
    call("bpf PROG_ATTACH", ExpectedOutcome::Denied, || bpf(bpf_command::PROG_ATTACH)),
    call("bpf OBJ_PIN", ExpectedOutcome::Denied, || bpf(bpf_command::OBJ_PIN)),
    call("bpf OBJ_GET", ExpectedOutcome::Denied, || bpf(bpf_command::OBJ_GET)),
    call("bpf PROG_GET_FD_BY_ID", ExpectedOutcome::Denied, || bpf(bpf_command::PROG_GET_FD_BY_ID)),
    call("bpf MAP_GET_FD_BY_ID", ExpectedOutcome::Denied, || bpf(bpf_command::MAP_GET_FD_BY_ID)),
    call("bpf LINK_UPDATE", ExpectedOutcome::Denied, || bpf(bpf_command::LINK_UPDATE)),
    call("bpf TOKEN_CREATE", ExpectedOutcome::Denied, || bpf(bpf_command::TOKEN_CREATE)),
    call("bpf LINK_CREATE", ExpectedOutcome::UntilAttached, || bpf(bpf_command::LINK_CREATE)),
    call("bpf RAW_TRACEPOINT_OPEN", ExpectedOutcome::UntilAttached, || bpf(bpf_command::RAW_TRACEPOINT_OPEN)),
    call("bpf PROG_TEST_RUN", ExpectedOutcome::Allowed, || bpf(bpf_command::PROG_TEST_RUN)),
    call("bpf MAP_LOOKUP_ELEM", ExpectedOutcome::Allowed, || bpf(bpf_command::MAP_LOOKUP_ELEM)),
    call("bpf MAP_UPDATE_ELEM", ExpectedOutcome::Allowed, || bpf(bpf_command::MAP_UPDATE_ELEM)),
    call("bpf MAP_DELETE_ELEM", ExpectedOutcome::Allowed, || bpf(bpf_command::MAP_DELETE_ELEM)),
    call("fcntl F_SETOWN", ExpectedOutcome::Denied, || raw(libc::SYS_fcntl, [NO_FD, libc::F_SETOWN.into(), 0])),
    call("fcntl F_DUPFD_CLOEXEC", ExpectedOutcome::UntilAttached, || {
        raw(libc::SYS_fcntl, [NO_FD, libc::F_DUPFD_CLOEXEC.into(), 0])
    }),
    call("epoll_create1", ExpectedOutcome::UntilAttached, || closed(raw(libc::SYS_epoll_create1, [0, 0, 0]))),
    call("prctl", ExpectedOutcome::UntilAttached, || raw(libc::SYS_prctl, [libc::PR_GET_DUMPABLE.into(), 0, 0])),
    call("capset", ExpectedOutcome::UntilAttached, || raw(libc::SYS_capset, [0, 0, 0])),
    call("seccomp", ExpectedOutcome::UntilAttached, || raw(libc::SYS_seccomp, [NO_FD, 0, 0])),
    call("read", ExpectedOutcome::Allowed, || raw(libc::SYS_read, [NO_FD, 0, 0])),
    call("sendmsg", ExpectedOutcome::Allowed, || raw(libc::SYS_sendmsg, [NO_FD, 0, 0])),
    call("getrusage", ExpectedOutcome::Allowed, || raw(libc::SYS_getrusage, [NO_FD, 0, 0])),
];

/// Calls that need it get three arguments more, which are 0.
fn raw(number: c_long, [first, second, third]: [c_long; 3]) -> CallOutcome {
    // SAFETY: no pointer among the arguments is written through: each is null, which the kernel checks, or a constant text.
    match unsafe { libc::syscall(number, first, second, third, 0_i64, 0_i64, 0_i64) } {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or_default()),
        value => Ok(value),
    }
}

fn bpf(command: u32) -> CallOutcome {
    raw(libc::SYS_bpf, [command.into(), 0, 0])
}

/// A descriptor is closed again.
fn closed(outcome: CallOutcome) -> CallOutcome {
    if let Ok(fd) = outcome {
        let _ = raw(libc::SYS_close, [fd, 0, 0]);
    }
    outcome
}

fn map(protection: i32) -> CallOutcome {
    const LEN: usize = 4096;
    // SAFETY: a fresh mapping of its own, which nothing refers to and which is released at once.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = libc::mmap(std::ptr::null_mut::<c_void>(), LEN, protection, flags, -1, 0);
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or_default());
        }
        libc::munmap(base, LEN);
    }
    Ok(0)
}

/// Prints for each call what it returns without a filter and at each stage: 0, or the number of the error. Then ends as asked:
/// by a panic, by SIGTERM or normally.
pub fn run(ending: Option<&str>) -> Result<ExitCode> {
    let filters = Filters::new()?;
    let mut rows = [const { Vec::new() }; 3];
    rows[0] = outcomes();
    filters.enter_prepared()?;
    rows[1] = outcomes();
    filters.enter_attached()?;
    rows[2] = outcomes();
    for (index, call) in CALLS.iter().enumerate() {
        println!("{} {} {} {:?} {}", rows[0][index], rows[1][index], rows[2][index], call.expected, call.name);
    }
    match ending {
        Some("panic") => panic!("as asked"),
        Some("signal") => signal::end_by_sigterm()?,
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn outcomes() -> Vec<i32> {
    CALLS.iter().map(|call| (call.make)().err().unwrap_or(0)).collect()
}
