//! Filters of system calls: what this process may still ask of the kernel at each stage of its life.
//!
//! Filters only narrow, so there are two. The first is installed once everything is loaded, in a standby engine too: from then
//! on nothing is opened, executed or connected to. The second comes on top once the scheduler is attached: then nothing is
//! attached either, and no further right is given up. Both list what is allowed; any other call returns `EPERM`.
//!
//! Both programs are made beforehand, since an attached engine allocates nothing.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// Of `enum bpf_cmd` in the kernel's `bpf.h`.
pub mod bpf_command {
    /// BPF_MAP_CREATE.
    pub const MAP_CREATE: u32 = 0;
    /// BPF_MAP_LOOKUP_ELEM.
    pub const MAP_LOOKUP_ELEM: u32 = 1;
    /// BPF_MAP_UPDATE_ELEM.
    pub const MAP_UPDATE_ELEM: u32 = 2;
    /// BPF_MAP_DELETE_ELEM.
    pub const MAP_DELETE_ELEM: u32 = 3;
    /// BPF_MAP_GET_NEXT_KEY.
    pub const MAP_GET_NEXT_KEY: u32 = 4;
    /// BPF_PROG_LOAD.
    pub const PROG_LOAD: u32 = 5;
    /// BPF_OBJ_PIN.
    pub const OBJ_PIN: u32 = 6;
    /// BPF_OBJ_GET.
    pub const OBJ_GET: u32 = 7;
    /// BPF_PROG_ATTACH.
    pub const PROG_ATTACH: u32 = 8;
    /// BPF_PROG_TEST_RUN.
    pub const PROG_TEST_RUN: u32 = 10;
    /// BPF_PROG_GET_FD_BY_ID.
    pub const PROG_GET_FD_BY_ID: u32 = 13;
    /// BPF_MAP_GET_FD_BY_ID.
    pub const MAP_GET_FD_BY_ID: u32 = 14;
    /// BPF_OBJ_GET_INFO_BY_FD.
    pub const OBJ_GET_INFO_BY_FD: u32 = 15;
    /// BPF_RAW_TRACEPOINT_OPEN.
    pub const RAW_TRACEPOINT_OPEN: u32 = 17;
    /// BPF_BTF_LOAD.
    pub const BTF_LOAD: u32 = 18;
    /// BPF_LINK_CREATE.
    pub const LINK_CREATE: u32 = 28;
    /// BPF_LINK_UPDATE.
    pub const LINK_UPDATE: u32 = 29;
    /// BPF_TOKEN_CREATE.
    pub const TOKEN_CREATE: u32 = 36;
}

/// What scheduling, unloading, reporting and panicking take, whatever the arguments.
const ALWAYS: &[c_long] = &[
    // Memory; mapping and protecting are looked at more closely.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Descriptors that are open.
    libc::SYS_close,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_write,
    libc::SYS_writev,
    // Waiting. A stopped or suspended process goes on with `restart_syscall`.
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    // Time and cost; without a usable clock in the vDSO, the C library asks the kernel.
    libc::SYS_clock_gettime,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    // Itself, and its end.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
];

/// Calls with a newer form, which is all that other architectures have.
#[cfg(target_arch = "x86_64")]
const ALWAYS_HERE: &[c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const ALWAYS_HERE: &[c_long] = &[];

/// What attaching takes besides, and giving up what is left.
const UNTIL_ATTACHED: &[c_long] = &[
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_mlockall,
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_signalfd4,
];

/// Commands of `bpf()` that act on open maps and programs.
const BPF_ALWAYS: &[u32] = &[
    bpf_command::MAP_LOOKUP_ELEM,
    bpf_command::MAP_UPDATE_ELEM,
    bpf_command::MAP_DELETE_ELEM,
    bpf_command::MAP_GET_NEXT_KEY,
    bpf_command::PROG_TEST_RUN,
    bpf_command::OBJ_GET_INFO_BY_FD,
];

/// Commands of `bpf()` that attach what is loaded.
const BPF_UNTIL_ATTACHED: &[u32] = &[bpf_command::RAW_TRACEPOINT_OPEN, bpf_command::LINK_CREATE];

/// Which filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterStage {
    Prepared,
    Attached,
}

/// The two filters, ready to be installed.
pub struct Filters {
    prepared: BpfProgram,
    attached: BpfProgram,
}

impl Filters {
    /// Makes both for this process.
    pub fn new() -> Result<Self> {
        let here = TargetArch::try_from(std::env::consts::ARCH).context("there is no filter for this architecture")?;
        Ok(Self { prepared: program(FilterStage::Prepared, here)?, attached: program(FilterStage::Attached, here)? })
    }

    /// From now on nothing is opened, executed, connected to or loaded.
    pub fn enter_prepared(&self) -> Result<()> {
        install(&self.prepared)
    }

    /// From now on nothing is attached either.
    pub fn enter_attached(&self) -> Result<()> {
        install(&self.attached)
    }
}

fn install(program: &BpfProgram) -> Result<()> {
    seccompiler::apply_filter(program).context("cannot filter system calls")
}

fn program(stage: FilterStage, arch: TargetArch) -> Result<BpfProgram> {
    let filter =
        SeccompFilter::new(rules(stage)?, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch);
    filter.and_then(BpfProgram::try_from).context("cannot make the filter of system calls")
}

/// A call without rules is allowed, one with rules if one of them holds.
fn rules(stage: FilterStage) -> Result<BTreeMap<c_long, Vec<SeccompRule>>> {
    let attaching = stage == FilterStage::Prepared;
    let of = |always: &'static [u32], until_attached: &'static [u32]| {
        always.iter().chain(until_attached.iter().filter(move |_| attaching))
    };
    let plain = ALWAYS.iter().chain(ALWAYS_HERE).chain(UNTIL_ATTACHED.iter().filter(|_| attaching));
    let mut rules: BTreeMap<_, _> = plain.map(|&call| (call, Vec::new())).collect();
    let commands = of(BPF_ALWAYS, BPF_UNTIL_ATTACHED).map(|&command| argument(0, SeccompCmpOp::Eq, command));
    rules.insert(libc::SYS_bpf, commands.collect::<Result<_>>()?);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![argument(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?]);
    }
    // Signals to itself only: it has the user of every service's process.
    rules.insert(libc::SYS_tgkill, vec![argument(0, SeccompCmpOp::Eq, std::process::id())?]);
    if attaching {
        rules.insert(libc::SYS_fcntl, vec![argument(1, SeccompCmpOp::Eq, libc::F_DUPFD_CLOEXEC as u32)?]);
    }
    Ok(rules)
}

/// Holds if the argument, of 32 bits, compares so.
fn argument(index: u8, operator: SeccompCmpOp, value: u32) -> Result<SeccompRule> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value.into());
    condition.and_then(|condition| SeccompRule::new(vec![condition])).context("cannot filter by argument")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter_trial::{CALLS, CallOutcome, ExpectedOutcome};

    #[test]
    fn programs_exist_for_every_architecture_we_build_for() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            for stage in [FilterStage::Prepared, FilterStage::Attached] {
                let program = program(stage, arch).unwrap();
                assert!((50..=4096).contains(&program.len()), "{arch:?} {stage:?}: {}", program.len());
            }
        }
    }

    #[test]
    fn the_second_filter_allows_nothing_that_the_first_denies() {
        let [prepared, attached] = [FilterStage::Prepared, FilterStage::Attached].map(|stage| rules(stage).unwrap());
        assert!(attached.keys().all(|call| prepared.contains_key(call)));
        assert!(BPF_UNTIL_ATTACHED.iter().all(|command| !BPF_ALWAYS.contains(command)));
    }

    /// In a thread of its own, since that is what the filter is installed in.
    #[test]
    fn denied_calls_return_an_error_and_the_others_work() {
        let outcomes = std::thread::spawn(|| {
            let filters = Filters::new().unwrap();
            filters.enter_prepared().unwrap();
            let prepared: Vec<CallOutcome> = CALLS.iter().map(|call| (call.make)()).collect();
            filters.enter_attached().unwrap();
            let attached: Vec<CallOutcome> = CALLS.iter().map(|call| (call.make)()).collect();
            (prepared, attached)
        });
        let (prepared, attached) = outcomes.join().unwrap();
        for ((call, prepared), attached) in CALLS.iter().zip(prepared).zip(attached) {
            let denied = (prepared == Err(libc::EPERM), attached == Err(libc::EPERM));
            let expected = (call.expected == ExpectedOutcome::Denied, call.expected != ExpectedOutcome::Allowed);
            // A kernel that refuses `bpf()` to this user says the same as the filter.
            let refused_anyway = call.expected != ExpectedOutcome::Denied && call.name.starts_with("bpf");
            assert!(denied == expected || refused_anyway, "{}: {prepared:?}, then {attached:?}", call.name);
        }
    }
}
