//! The kernel's functions that the scheduler calls, by their C names.
//!
//! Tasks are numbers here: the pointer that the scheduler passes names one through the number it carries.

#![allow(unsafe_code, clippy::missing_safety_doc, missing_docs)]

use std::ffi::{CStr, c_char, c_void};

use crate::abi::{CpuMask, DrainCallback, TaskStruct, sim_bpf_call_drain};
use crate::interleave::{self, SharedObject};
use crate::machine::{Machine, MachineEvent, QueueMove, with_machine};
use crate::stats::PERFORMANCE_ALL;
use crate::task::TaskId;
use crate::traps::{current_run, sim_trap};

/// `-EBUSY`.
const NONE_IDLE: i32 = -16;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: u64 = 0x2;
/// `BPF_RB_NO_WAKEUP`.
const NO_WAKEUP: u64 = 0x1;

/// A function that loaded schedulers may call.
pub struct ImportedFunction {
    /// Its name in C.
    pub name: &'static str,
    /// Where it is.
    pub address: *const c_void,
}

macro_rules! imports {
    ($($name:ident),* $(,)?) => {
        &[$(ImportedFunction { name: stringify!($name), address: $name as *const c_void }),*]
    };
}

/// All functions that the headers declare for them.
pub const IMPORTS: &[ImportedFunction] = imports![
    bpf_get_current_task_btf,
    bpf_get_smp_processor_id,
    bpf_ktime_get_ns,
    bpf_task_from_pid,
    scx_bpf_cpu_node,
    scx_bpf_cpuperf_set,
    scx_bpf_create_dsq,
    scx_bpf_dispatch_nr_slots,
    scx_bpf_dsq_insert,
    scx_bpf_dsq_insert_vtime,
    scx_bpf_dsq_nr_queued,
    scx_bpf_get_idle_smtmask,
    scx_bpf_get_online_cpumask,
    scx_bpf_kick_cpu,
    scx_bpf_now,
    scx_bpf_pick_idle_cpu,
    scx_bpf_pick_idle_cpu_node,
    scx_bpf_reenqueue_local,
    scx_bpf_select_cpu_dfl,
    scx_bpf_task_cpu,
    scx_bpf_test_and_clear_cpu_idle,
    sim_change_map,
    sim_dsq_move,
    sim_dsq_move_to_local,
    sim_dsq_peek,
    sim_iter_dsq_destroy,
    sim_iter_dsq_new,
    sim_iter_dsq_next,
    sim_reenqueue_local_anywhere,
    sim_report_error,
    sim_task_set_slice,
    sim_timer_start,
    sim_trap,
];

fn id_of(p: *const TaskStruct) -> TaskId {
    assert!(!p.is_null(), "the scheduler passed NULL for a task: {}", current_run());
    // SAFETY: every task that the scheduler ever got is alive until the machine is dropped.
    unsafe { (*p).sim_id as TaskId }
}

fn mask_of<'a>(mask: *const CpuMask) -> &'a CpuMask {
    assert!(!mask.is_null(), "the scheduler passed NULL for a mask: {}", current_run());
    // SAFETY: masks belong to tasks or to the machine, and do not change during a call.
    unsafe { &*mask }
}

fn raw_of(machine: &Machine, id: Option<TaskId>) -> *mut TaskStruct {
    id.map_or(std::ptr::null_mut(), |id| machine.tasks[id].raw())
}

fn to_cpu(cpu: Option<usize>) -> i32 {
    cpu.map_or(NONE_IDLE, |cpu| cpu as i32)
}

#[unsafe(no_mangle)]
extern "C" fn bpf_ktime_get_ns() -> u64 {
    with_machine(|machine| machine.now)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_now() -> u64 {
    with_machine(|machine| machine.now)
}

#[unsafe(no_mangle)]
extern "C" fn bpf_get_smp_processor_id() -> u32 {
    with_machine(|machine| machine.this_cpu() as u32)
}

#[unsafe(no_mangle)]
extern "C" fn bpf_get_current_task_btf() -> *mut TaskStruct {
    with_machine(|machine| machine.current_raw())
}

#[unsafe(no_mangle)]
extern "C" fn bpf_task_from_pid(pid: i32) -> *mut TaskStruct {
    interleave::point();
    with_machine(|machine| machine.task_of_pid(pid).map_or(std::ptr::null_mut(), crate::task::Task::raw))
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_task_cpu(p: *const TaskStruct) -> i32 {
    interleave::look(SharedObject::Task(id_of(p)));
    with_machine(|machine| machine.tasks[id_of(p)].cpu as i32)
}

/// A map is about to be locked and changed.
#[unsafe(no_mangle)]
extern "C" fn sim_change_map() {
    interleave::barrier();
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_create_dsq(dsq_id: u64, _node: i32) -> i32 {
    with_machine(|machine| machine.create_queue(dsq_id))
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_nr_queued(dsq_id: u64) -> i32 {
    interleave::look(SharedObject::Queue(dsq_id));
    with_machine(|machine| machine.nr_queued(dsq_id))
}

#[unsafe(no_mangle)]
extern "C" fn sim_dsq_peek(dsq_id: u64) -> *mut TaskStruct {
    interleave::look(SharedObject::Queue(dsq_id));
    with_machine(|machine| raw_of(machine, machine.peek(dsq_id)))
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_insert(p: *mut TaskStruct, dsq_id: u64, slice: u64, flags: u64) {
    interleave::point();
    with_machine(|machine| machine.insert_from_bpf(id_of(p), dsq_id, slice, None, flags));
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_insert_vtime(p: *mut TaskStruct, dsq_id: u64, slice: u64, vtime: u64, flags: u64) {
    interleave::point();
    with_machine(|machine| machine.insert_from_bpf(id_of(p), dsq_id, slice, Some(vtime), flags));
}

#[unsafe(no_mangle)]
extern "C" fn sim_dsq_move_to_local(dsq_id: u64, _flags: u64) -> bool {
    with_machine(|machine| machine.move_to_local(dsq_id))
}

#[unsafe(no_mangle)]
extern "C" fn sim_dsq_move(
    walk: u64,
    p: *mut TaskStruct,
    dsq_id: u64,
    flags: u64,
    by_vtime: bool,
    slice: u64,
    vtime: u64,
) -> bool {
    let asked = QueueMove { dsq_id, flags, by_vtime, slice_ns: (slice != 0).then_some(slice), vtime };
    with_machine(|machine| machine.move_between(walk, id_of(p), &asked))
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dispatch_nr_slots() -> u32 {
    with_machine(Machine::nr_dispatch_slots)
}

#[unsafe(no_mangle)]
extern "C" fn sim_task_set_slice(p: *mut TaskStruct, slice: u64) {
    // The idle tasks are nobody's to change.
    if bpf_pid(p) != 0 {
        interleave::touch(SharedObject::Task(id_of(p)));
        with_machine(|machine| machine.tasks[id_of(p)].kernel_mut().scx.slice = slice);
    }
}

fn bpf_pid(p: *const TaskStruct) -> i32 {
    // SAFETY: as in `id_of()`.
    unsafe { (*p).pid }
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_kick_cpu(cpu: i32, flags: u64) {
    interleave::barrier();
    with_machine(|machine| machine.kick_from_bpf(cpu, flags));
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_reenqueue_local() -> u32 {
    interleave::barrier();
    with_machine(|machine| machine.reenqueue_local(machine.this_cpu()))
}

#[unsafe(no_mangle)]
extern "C" fn sim_reenqueue_local_anywhere() {
    interleave::barrier();
    with_machine(Machine::reenqueue_local_soon);
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_cpuperf_set(cpu: i32, performance: u32) {
    interleave::point();
    with_machine(|machine| match usize::try_from(cpu).ok().and_then(|cpu| machine.cpus.get_mut(cpu)) {
        Some(_) if performance > PERFORMANCE_ALL => machine.fail(format!("invalid performance {performance}")),
        Some(state) => state.performance = performance,
        None => machine.fail(format!("invalid CPU {cpu} to ask for performance")),
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_select_cpu_dfl(p: *mut TaskStruct, prev: i32, wake_flags: u64, idle: *mut bool) -> i32 {
    interleave::point();
    let found = with_machine(|machine| machine.select_cpu_default(id_of(p), prev as usize, wake_flags));
    // SAFETY: the caller passes a variable of its own.
    unsafe { *idle = found.is_some() };
    found.map_or(prev, |cpu| cpu as i32)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_test_and_clear_cpu_idle(cpu: i32) -> bool {
    interleave::barrier();
    with_machine(|machine| {
        usize::try_from(cpu).is_ok_and(|cpu| cpu < machine.cpus.len() && machine.idle.take(&machine.topology, cpu))
    })
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_pick_idle_cpu(allowed: *const CpuMask, flags: u64) -> i32 {
    interleave::point();
    with_machine(|machine| to_cpu(machine.idle.pick(&machine.topology, mask_of(allowed), flags)))
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_pick_idle_cpu_node(allowed: *const CpuMask, node: i32, flags: u64) -> i32 {
    interleave::point();
    with_machine(|machine| {
        let allowed = mask_of(allowed);
        let near = allowed.and(machine.topology.node_mask(node as usize));
        let found = machine.idle.pick(&machine.topology, &near, flags);
        to_cpu(found.or_else(|| machine.idle.pick(&machine.topology, allowed, flags)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_get_online_cpumask() -> *const CpuMask {
    interleave::point();
    with_machine(|machine| &raw const machine.topology.online)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_get_idle_smtmask() -> *const CpuMask {
    interleave::point();
    with_machine(|machine| &raw const machine.idle.cores)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_cpu_node(cpu: i32) -> i32 {
    with_machine(|machine| machine.topology.node_of(cpu as usize) as i32)
}

#[unsafe(no_mangle)]
extern "C" fn sim_iter_dsq_new(dsq_id: u64) -> u64 {
    interleave::point();
    with_machine(|machine| machine.begin_walk(dsq_id))
}

#[unsafe(no_mangle)]
extern "C" fn sim_iter_dsq_next(walk: u64) -> *mut TaskStruct {
    with_machine(|machine| {
        let next = machine.walk(walk);
        raw_of(machine, next)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sim_iter_dsq_destroy(walk: u64) {
    with_machine(|machine| machine.end_walk(walk));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_report_error(text: *const c_char) {
    // SAFETY: glue.c passes a string that ends.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    with_machine(|machine| machine.fail(text));
}

#[unsafe(no_mangle)]
extern "C" fn sim_timer_start(timer: *mut c_void, after_ns: u64) -> i64 {
    interleave::barrier();
    with_machine(|machine| machine.start_timer(timer as usize, after_ns));
    0
}

#[unsafe(no_mangle)]
extern "C" fn sim_ringbuf_reserve(capacity: u64, size: u64) -> *mut c_void {
    interleave::barrier();
    with_machine(|machine| machine.rings.borrow_mut().reserve(capacity, size) as *mut c_void)
}

#[unsafe(no_mangle)]
extern "C" fn sim_ringbuf_submit(record: *mut c_void, flags: u64) {
    interleave::barrier();
    finish_record(record, flags, true);
}

#[unsafe(no_mangle)]
extern "C" fn sim_ringbuf_discard(record: *mut c_void, flags: u64) {
    interleave::barrier();
    finish_record(record, flags, false);
}

/// Without a flag the kernel wakes a reader that has read everything before; the scheduler always gives one.
fn finish_record(record: *mut c_void, flags: u64, submitted: bool) {
    let is_given = flags & (FORCE_WAKEUP | NO_WAKEUP) != 0;
    assert!(is_given, "the ring's adaptive notification is not emulated: {}", current_run());
    with_machine(|machine| {
        machine.rings.borrow_mut().finish(record as usize, submitted);
        if flags & FORCE_WAKEUP != 0 {
            let (at, cpu) = (machine.now + machine.costs.interrupt_ns, machine.this_cpu());
            machine.at(at, MachineEvent::Notify(cpu));
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn sim_ringbuf_query(capacity: u64, what: u64) -> u64 {
    interleave::point();
    with_machine(|machine| {
        let rings = machine.rings.borrow();
        let (consumed, produced) = rings.positions();
        [rings.available(), capacity, consumed, produced].get(what as usize).copied().unwrap_or(0)
    })
}

/// The callback ends it with anything but 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_user_ringbuf_drain(callback: DrainCallback, context: *mut c_void) -> i64 {
    interleave::barrier();
    let mut nr_drained = 0;
    while let Some((mut record, size)) = with_machine(|machine| machine.rings.borrow_mut().take_down()) {
        nr_drained += 1;
        // SAFETY: the callback comes from the scheduler; the record outlives the call, and the machine is not borrowed.
        if unsafe { sim_bpf_call_drain(callback, context, record.as_mut_ptr().cast(), size as u32) } != 0 {
            break;
        }
    }
    nr_drained
}
