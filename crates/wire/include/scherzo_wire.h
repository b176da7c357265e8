/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scherzo_wire.h: every structure that crosses from BPF to user space or back.
 *
 * The BPF object includes this file; `scherzo-wire` mirrors it in Rust, and that crate's `layout` test compiles this
 * header and compares every offset. Change both together, and raise WIRE_VERSION in crates/model. Modes, classes and
 * counters are in scherzo_model.h, which is generated.
 *
 * Three kinds of memory are described here:
 *   rings     struct scherzo_queued_task goes up (BPF ring buffer), struct scherzo_dispatched_task comes down (user ring buffer);
 *   slots     one struct scherzo_slot per task, in a memory-mapped array: what the policy publishes;
 *   pages     struct scherzo_control (one) and struct scherzo_cpu_stats (one per possible CPU), memory-mapped by the
 *             engine for writing and by the daemon for reading.
 *
 * Times are nanoseconds of the BPF clock (CLOCK_MONOTONIC): compare them by signed difference only.
 */
#ifndef SCHERZO_WIRE_H
#define SCHERZO_WIRE_H

#include "scherzo_model.h"
#include "policy.h"

/* One slot per task; tasks beyond that are scheduled by BPF alone and counted as overflow. */
#define SCHERZO_NR_SLOTS 32768
#define SCHERZO_NO_SLOT 0xffffffffU

/* Records each ring has room for (the byte sizes below are powers of two, as ring buffers require). */
#define SCHERZO_NR_RING_RECORDS 8192
#define SCHERZO_QUEUED_RING_BYTES (1U << 20)
#define SCHERZO_DISPATCHED_RING_BYTES (1U << 19)

/* A dispatched task that leaves the CPU to BPF. */
#define SCHERZO_CPU_ANY 0xffffffffU

#define SCHERZO_NR_WAIT_BUCKETS 32

/*
 * The control word, written by the engine as one aligned 64-bit store and read once per callback:
 *
 *   63            32 31      24 23      16 15       8 7        0
 *   [  generation  ] [ unused ] [  order ] [  flags ] [  mode  ]
 *
 * The order says which DSQs new work enters; it differs from the mode's own when interactive turns itself into FIFO.
 */
#define SCHERZO_CONTROL_MODE_SHIFT 0
#define SCHERZO_CONTROL_FLAGS_SHIFT 8
#define SCHERZO_CONTROL_ORDER_SHIFT 16
#define SCHERZO_CONTROL_GENERATION_SHIFT 32

#define SCHERZO_FLAG_PREEMPTION 0x1
#define SCHERZO_FLAG_FULL_USER 0x2 /* no shortcuts: every task that wakes goes to user space */
#define SCHERZO_FLAG_OWN_IDLE 0x4 /* BPF looks for idle CPUs by itself, not the kernel's built-in selection */
#define SCHERZO_FLAG_WHOLE_CORES 0x8 /* that search prefers cores of which every thread is idle */
#define SCHERZO_FLAG_NUMA_LOCAL 0x10 /* and looks in the task's own node first */
#define SCHERZO_FLAG_KERNEL_SEAT 0x20 /* BPF itself follows the policy, without user space, in the mode interactive */

enum scherzo_order {
	SCHERZO_ORDER_DEADLINE = 0,
	SCHERZO_ORDER_FIFO = 1,
};

enum scherzo_record {
	SCHERZO_RECORD_ENQUEUE = 1, /* the task is in flight: user space owns it now */
	SCHERZO_RECORD_REFRESH = 2, /* for classification only: the task never left BPF, its class is stale */
	SCHERZO_RECORD_EXIT = 3, /* the slot is free; only slot and pid are set */
	SCHERZO_RECORD_NOTICE = 4, /* look at the control page: degraded, or the scheduler was ejected */
};

#define SCHERZO_QUEUED_WAKEUP 0x1 /* woken, not preempted or moved */
#define SCHERZO_QUEUED_PINNED 0x2 /* may run on one CPU only */

/* BPF -> engine, through the ring buffer of queued tasks. */
struct scherzo_queued_task {
	u32 kind; /* enum scherzo_record */
	u32 slot;
	u64 generation; /* of this enqueue; the dispatched task must repeat it */
	u32 pid;
	u32 flags; /* SCHERZO_QUEUED_* */
	u64 now_ns;
	u64 sum_exec_ns; /* CPU time since the scheduler met this task */
	u64 burst_ns; /* CPU time since it last slept; for a wake-up, of the burst before that sleep */
	u64 nr_voluntary_switches; /* since the task was born */
	u32 weight; /* 1..10000, 100 is nice 0 */
	u32 cpu; /* where it last ran */
	u32 nr_running; /* tasks on a CPU now */
	u32 nr_waiting; /* tasks in DSQs or in flight now */
	struct policy_account account; /* what its turn depends on; zeroes for a policy for study */
};

#define SCHERZO_DISPATCHED_CLASS_MASK 0x3
#define SCHERZO_DISPATCHED_FIFO 0x4 /* of a policy for study: arrival order, deadline_ns is ignored */
#define SCHERZO_DISPATCHED_PREEMPT 0x8 /* of a policy for study: take a CPU from a batch task at once */
#define SCHERZO_DISPATCHED_TIMED 0x10 /* a timer ends the slice */

/* Engine -> BPF, through the user ring buffer of dispatched tasks. */
struct scherzo_dispatched_task {
	u32 slot;
	u32 pid;
	u64 generation;
	u64 slice_ns;
	u64 deadline_ns; /* earlier runs first; virtual runtime for a task that has no credit */
	u32 cpu; /* or SCHERZO_CPU_ANY */
	u32 flags; /* SCHERZO_DISPATCHED_* */
};

/*
 * What the policy publishes about each task, so that BPF can act on it without asking. Written by the engine, except that
 * BPF clears the class when the slot gets a new owner.
 */
struct scherzo_slot {
	u64 deadline_ns; /* the last one */
	u64 classified_ns; /* when the task was classified */
	u64 slice_ns; /* last slice */
	u32 klass; /* enum scherzo_class */
	u32 reserved;
};

/* One page. Each group of eight words is a cache line with one writer, or with readers that seldom meet a writer. */
struct scherzo_control {
	/* Read by every callback, seldom written: by the engine, but for the second row. */
	u64 word; /* the control word above */
	u64 slice_ns; /* slice for tasks that BPF dispatches by itself */
	u64 starvation_limit_ns; /* how long batch work waits behind interactive work */
	u64 foreground_cgroup; /* number of the control group in front, in the default hierarchy; 0 is none */
	u32 foreground_percent; /* what it weighs, of its own weight */
	u32 timed_slice_us; /* slices shorter than this are ended by timer while others wait */
	u64 degraded_seq; /* by BPF, a copy: odd while degraded; counts both edges */
	u64 nr_online_cpus; /* by BPF */
	u64 exited; /* by BPF: ops.exit has run */

	/* Written by the engine in every turn. */
	u64 nr_submitted; /* dispatched tasks written to the ring so far */
	u64 parked; /* the engine sleeps or is about to: a new record must wake it */
	u64 recovered_seq; /* answer to degraded_seq: user space is back */
	u64 nr_urgent; /* dispatched tasks so far that ask for preemption */
	u64 nr_loops;
	u64 nr_records;
	u64 nr_dispatched;
	u64 nr_max_batch;

	/* Written by BPF with every hand-over. */
	s64 nr_in_flight; /* a copy */
	s64 nr_tasks;
	s64 nr_running;
	u64 degraded_since_ns;
	u64 nr_higher_class_cpus; /* when the scheduler ended: not 0 if a higher class had held CPUs for seconds, until a moment ago at least */
	s64 nr_waiting; /* runnable tasks in DSQs and in flight, when the watchdog timer last looked */
	u64 bpf_reserved[2];

	/* Written by the engine: the policy's view. */
	u64 nr_pooled; /* tasks in the pool after the last loop */
	u64 nr_interactive; /* enqueues classified as interactive */
	u64 nr_batch; /* enqueues classified as batch */
	u64 nr_doorbells; /* kick programs run because the engine did not block */
	u64 threshold_milli; /* moving threshold: voluntary switches per 1000 s */
	u64 fifo_since_ns; /* when interactive turned itself into FIFO, 0 if not */
	u64 nr_overflow; /* tasks handed straight back because the pool was full */
	u64 nr_bad_records;

	/* Written by the engine when asked: its own cost. */
	u64 nr_page_faults; /* since attach */
	u64 nr_heap_ops; /* since attach */
	u64 cpu_time_ns; /* of the engine since attach */
	u64 resident_bytes; /* locked, so it does not change */
	u64 engine_reserved[4];
};

/* One per possible CPU, written by that CPU only. */
struct scherzo_cpu_stats {
	u64 counters[SCHERZO_NR_COUNTERS];
	/* Run-queue wait: bucket b counts waits below 2^b us that do not fit bucket b - 1; the last takes the rest. */
	u64 wait[SCHERZO_NR_CLASSES][SCHERZO_NR_WAIT_BUCKETS];
	u64 busy_ns; /* time spent in tasks of this scheduler, the engine left out */
	u64 nr_idle_entries; /* times the CPU went idle */
	u64 higher_class_ns; /* time a higher scheduling class held the CPU */
	u64 reserved[5];
};

_Static_assert(sizeof(struct scherzo_queued_task) == 120, "layout of a queued task");
_Static_assert(sizeof(struct scherzo_dispatched_task) == 40, "layout of a dispatched task");
_Static_assert(sizeof(struct scherzo_slot) == 32, "two slots in a cache line");
_Static_assert(sizeof(struct scherzo_control) == 320, "control layout");
_Static_assert((sizeof(struct scherzo_queued_task) + 8) * SCHERZO_NR_RING_RECORDS <= SCHERZO_QUEUED_RING_BYTES,
	       "ring of queued tasks too small");
_Static_assert((sizeof(struct scherzo_dispatched_task) + 8) * SCHERZO_NR_RING_RECORDS <= SCHERZO_DISPATCHED_RING_BYTES,
	       "ring of dispatched tasks too small");

#endif /* SCHERZO_WIRE_H */
