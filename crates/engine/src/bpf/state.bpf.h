/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state.bpf.h: what is remembered: DSQs, maps, the contexts of tasks, CPUs and LLCs, and how each is found.
 *
 * Ownership: each word of the control page has one writer (see scherzo_wire.h). What BPF relies on (which task owns a slot,
 * what is in flight and how much, whether it schedules alone, what runs where) lives in memory that no process maps, so that
 * a broken engine cannot forge it; what the page says of it is a copy.
 */
#ifndef SCHERZO_STATE_BPF_H
#define SCHERZO_STATE_BPF_H

#include "policy.h"

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL

/* Longest slice that user space may ask for, and the slice of the engine itself. */
#define SLICE_MAX_NS POLICY_SLICE_MAX_NS
/* Interactive work that has run for less since it slept is let finish. */
#define BURST_MIN_NS (1 * NSEC_PER_MSEC)
/* A task that runs for less between sleeps is expected to sleep again soon. */
#define BRIEF_NS (200 * NSEC_PER_USEC)

/* Priorities below this belong to higher scheduling classes. */
#ifndef MAX_RT_PRIO
#define MAX_RT_PRIO 100
#endif

#ifndef SCHED_EXT
#define SCHED_EXT 7
#endif

#define CACHELINE __attribute__((aligned(64)))

/*
 * For functions with loops: the verifier checks a global function once, for any arguments, instead of once per path that
 * reaches it; without this, loading took seconds. Weak, so that the compiler infers nothing about the result either.
 *
 * The same for functions that load a pointer from a task: for each such load, on every path, the verifier searches the
 * names of all the kernel's types for whether that pointer may be trusted, which was a third of the time to load.
 */
#define VERIFIED_ONCE __weak __noinline

/*
 * The clock of all times here, CLOCK_MONOTONIC. Not scx_bpf_now(): that answers with what this CPU's run queue has noted until the
 * run queue is unlocked with rq_unpin_lock(). Where another CPU has just taken a task from this run queue, sched_ext unlocks it without
 * (seen on 6.18), so timers and wake-ups on this CPU would see a clock that stands still until it schedules again or has a tick.
 */
static __always_inline u64 clock_now(void)
{
	return bpf_ktime_get_ns();
}
#undef scx_bpf_now
#pragma GCC poison scx_bpf_now

/*
 * Dispatch queues (DSQs): the kind in the upper half, a CPU or an LLC in the lower.
 *
 * A DSQ is ordered either by arrival or by dsq_vtime, never both, because the kernel refuses a mix. Where dsq_vtime is a
 * deadline, it is a time of the BPF clock ("as if it had arrived at"): deadlines in different DSQs can be compared.
 */
enum dsq_kind {
	DSQ_CPU = 1, /* by deadline: tasks that may run on this CPU only */
	DSQ_INTERACTIVE = 2, /* by deadline, one per LLC */
	DSQ_BATCH = 3, /* by deadline, one per LLC */
	DSQ_FIFO = 4, /* by arrival, one per LLC */
	DSQ_KIND_ENGINE = 5, /* the engine's own thread, before everything else */
	/* Of the policy, in either seat: see seat.bpf.h. The ones above but DSQ_CPU are of policies for study. */
	DSQ_PROMPT = 6, /* by deadline, one per LLC: prompt tasks */
	DSQ_FAIR = 7, /* by virtual runtime, one per LLC: the others */
	DSQ_CPU_PROMPT = 8, /* the same two for tasks that may run on this CPU only */
	DSQ_CPU_FAIR = 9,
	DSQ_PARK = 10, /* by arrival: tasks that a limit holds up, see park.bpf.h */
};

#define DSQ_ID(kind, index) (((u64)(kind) << 32) | (u32)(index))
/* As many DSQs for tasks that limits hold up; a power of two. */
#define NR_PARKS 64
#define ENGINE_DSQ DSQ_ID(DSQ_KIND_ENGINE, 0)

_Static_assert(DSQ_ID(DSQ_KIND_ENGINE, ~0U) < (1ULL << 62), "user queue ids leave the kernel's flag bits alone");

/* Set before loading. */
const volatile u32 engine_pid;
const volatile u32 nr_cpu_slots = 1; /* possible CPU ids: 0 .. nr_cpu_slots - 1 */
const volatile u32 nr_llcs = 1;
const volatile bool cores_differ; /* some are slow, others fast; else the verifier removes what tells them apart */
const volatile u32 fast_llc; /* where they differ, an LLC with fast ones */
const volatile bool per_node_idle; /* the kernel tracks idle CPUs per NUMA node */
const volatile bool partial; /* only tasks that chose SCHED_EXT are ours */
const volatile bool study_policy; /* user space follows a policy for study, with classes and deadlines of its own */
const volatile bool reenqueue_anywhere; /* from 6.19: waiting tasks can be put back outside of ops.cpu_release too */

UEI_DEFINE(uei);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SCHERZO_QUEUED_RING_BYTES);
} queued_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, SCHERZO_DISPATCHED_RING_BYTES);
} dispatched_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scherzo_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct scherzo_cpu_stats);
} cpu_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHERZO_NR_SLOTS);
	__type(key, u32);
	__type(value, struct scherzo_slot);
} slots SEC(".maps");

/* flight.word = generation << 1 | owned by user space */
#define USER_OWNED 0x1ULL

/* BPF's own side of a slot. */
struct flight {
	u64 word;
	u64 submitted_ns;
	u32 pid; /* thread that owns the slot */
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHERZO_NR_SLOTS);
	__type(key, u32);
	__type(value, struct flight);
} flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SCHERZO_NR_SLOTS);
	__uint(value_size, sizeof(u32));
} free_slots SEC(".maps");

/*
 * One bit per slot in flight, and one per 64 slots that have ever been, so that looking for entries need not read the
 * whole table. Slots are given out lowest first: few of the latter are ever set.
 */
#define NR_FLIGHT_WORDS (SCHERZO_NR_SLOTS / 64)
#define NR_FLIGHT_GROUPS (NR_FLIGHT_WORDS / 64)
static u64 flight_groups[NR_FLIGHT_GROUPS] CACHELINE;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_FLIGHT_WORDS);
	__type(key, u32);
	__type(value, u64);
} flight_bits SEC(".maps");

/* The first task of a DSQ of the policy, and since when it is: what the watchdog timer has seen, or who queued or ran one of the DSQ. */
struct head_watch {
	u64 since_ns;
	u32 pid; /* FIRST_UNKNOWN until the timer has seen which it is, 0 if there was none */
	u32 weight; /* its own, see task_ctx.own_weight; 0 where every CPU may take it, which is then not overdue for long */
};

#define FIRST_UNKNOWN (~0U)

struct cpu_ctx {
	/*
	 * Non-zero while a batch task runs here: its deadline with the lowest bit set. The CPU that swaps it for zero has
	 * preempted this one, and no other will preempt the same task.
	 */
	u64 victim_deadline;
	u64 higher_class_since_ns; /* see ours_left() */
	u64 higher_class_ns; /* time that a higher class had the CPU, up to then */
	u32 llc;
	u32 llc_known; /* not of a CPU that was offline or absent when the scheduler was loaded */
	u32 slow; /* on a slow core, where others are fast */
	u32 online;
	u32 low_power; /* carries batch work in low-power mode */
	u32 performance; /* that was asked for last, of SCX_CPUPERF_ONE; 0 is none yet */
	/* Turns between DSQs that cannot be compared, each question with its own. */
	u8 turn_pinned;
	u8 turn_order;
	u8 turn_late;
	u8 turn_balance;
	u8 turn_seat;
	bool late_pick; /* the next task was due: it must not be preempted */
	bool rechecked; /* kicked once since something last ran here */
	u8 nr_looked_at; /* tasks of a DSQ, in memory because the verifier would follow each value, see first_vtime() */
	u8 nr_reenqueued; /* times the local DSQ was emptied since one of our tasks last ran here, see empties_local_dsq() */
	bool makes_room; /* the task that runs here does, for the engine or for a quicker task */
	bool runs_engine; /* and has it now */
	bool idle; /* counted in nr_idle */
	s32 nr_own; /* tasks in DSQ_CPU, see dsq_count() */
	s32 nr_own_prompt; /* in DSQ_CPU_PROMPT */
	s32 nr_own_fair; /* in DSQ_CPU_FAIR */
	struct head_watch prompt_head, fair_head; /* of these two */
	/*
	 * Non-zero while an interactive task runs here: as long ago as the task has run since it slept. The task for which
	 * it is swapped for zero has the CPU next.
	 */
	u64 burst_since_ns;
	u32 burst_weight; /* that task's own, see task_ctx.own_weight */
	u32 burst_use; /* and what it uses, as an enum policy_use_level */
	u64 run_began_ns; /* since when the task that runs here has had the CPU without a break */
	/*
	 * Non-zero if the task that has the CPU, or was given it a moment ago, ran briefly the last time: it will most likely be
	 * gone by then.
	 */
	u64 brief_until_ns;
	/* Of the task that runs here, for those it wakes: when its burst began, interruptions taken off, 0 if it is none of ours. */
	u64 burst_from_ns;
	u64 last_burst_ns; /* how long the one before that was */
	u64 seen_clock, seen_system_clock; /* and its use's, see task_ctx.use */
	u32 nr_messages; /* with which it has woken others in its burst */
	u32 preempted; /* slot, plus one, of the task that was last handed over from here without having slept */
	u64 run_ends_ns; /* when a timer ends the run of the current task, 0 if none does; see run_timer.bpf.h */
	/* See performance.bpf.h. */
	u64 util_until_ns; /* up to when what follows is known */
	u32 util; /* for how much of its time tasks have run here, of POLICY_UTIL_ALL */
	u64 prompt_turn_ns; /* when a prompt task was last let first though others are owed, see is_turn_of_prompt() */
	u64 overdue_turn_ns; /* when a task was last looked for that was overdue, see take_overdue() */
	u64 next_run_ns; /* how long the one that was found may run, 0 for its slice */
} CACHELINE;

/* User space writes the topology to this offset. */
_Static_assert(__builtin_offsetof(struct cpu_ctx, llc) == 24, "kernel.rs knows this offset");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

#define NR_CPU_WORDS 16 /* of 64 CPUs */

struct llc_ctx {
	u64 preemptible[NR_CPU_WORDS]; /* CPUs that may run batch work: where to look for victims */
	/* Tasks in each of the LLC's DSQs, see dsq_count(). */
	s32 nr_interactive CACHELINE;
	s32 nr_batch;
	s32 nr_fifo;
	/*
	 * No batch task in the DSQ has an earlier deadline: its head need not be looked at until this one is late. A race
	 * between two CPUs that change it may leave it at another deadline of the DSQ, and costs no more than their distance.
	 */
	u64 batch_from_ns;
	/* Of the policy. */
	s32 nr_prompt;
	s32 nr_fair;
	struct head_watch prompt_head, fair_head;
	u64 clock; /* virtual: follows the virtual runtime of the others that are picked, see advance_clock(); never backwards */
	u64 clock_at_ns; /* when it advanced last */
	u64 system_clock; /* virtual: the time of all that are runnable, see pass_system_clock() */
	u64 system_clock_at_ns;
	s64 prompt_weight CACHELINE; /* of runnable tasks */
	s64 fair_weight;
	s64 lead_ns; /* CPU time by which the prompt are ahead, see policy_lead() */
	s64 light_lead_ns; /* the same of those that are light, as if nothing else that is prompt ran */
	/* What the prompt have run beside others, and what is left to those of the LLC's CPUs, see measure_fair_room(). */
	u64 prompt_ran_ns;
	u64 measured_prompt_ns, measured_at_ns;
	u64 fair_room;
	/* What tasks have run that use little, by how brief their bursts are, and of how many of those kinds none goes first, see measure_little(). */
	u64 little_ran_ns[POLICY_NR_BURST_KINDS];
	u64 measured_little_ns[POLICY_NR_BURST_KINDS], little_measured_at_ns;
	u32 nr_little_barred;
	/* What tasks of each level have run while others took turns, and how many kinds of light ones have had half of the CPUs or less together. */
	u64 ran_of_level_ns[POLICY_USE_MASK + 1], measured_light_ns[POLICY_NR_LIGHT_KINDS];
	u32 nr_light_spared;
} CACHELINE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* LLCs, set before loading */
	__type(key, u32);
	__type(value, struct llc_ctx);
} llc_ctxs SEC(".maps");

/* What BPF remembers of a task. */
struct task_ctx {
	u64 generation; /* of the last enqueue that went to user space */
	u64 wait_since_ns; /* runnable and not running since then */
	u64 wait_higher_class_ns; /* cpu_ctx.higher_class_ns of wait_cpu at that time */
	u64 started_ns;
	u64 slice_ns; /* that it started with, and once it has stopped what is left of that */
	u64 sum_exec_ns;
	u64 burst_ns; /* CPU time since it last slept */
	u64 last_burst_ns; /* and in the burst before that */
	u64 refreshed_ns; /* last time user space was told about it */
	u64 record_at; /* no later in the ring of queued tasks than its last record that asks for a dispatch; 0 is none */
	u64 dsq_id; /* the DSQ of ours that it entered last, 0 since it runs */
	u32 slot;
	s32 last_cpu; /* -1 until it first runs */
	s32 wait_cpu;
	bool woken; /* woken, but never classified by user space since */
	bool prompt; /* has credit, see policy.h */
	bool uses_little; /* when it was woken last, see policy_uses_little() */
	u8 use_level; /* when its deadline was set last, as an enum policy_use_level */
	u8 burst_kind; /* and how brief its bursts were, see policy_burst_kind() */
	bool yields; /* has credit, but takes turns, see yield_to_fair() */
	bool waits_for_child; /* it has forked, and has been woken by ends of its children only since */
	bool left_place; /* its end has woken its parent, which is where it was */
	bool gathers; /* messages, see let_messages_gather() */
	bool feeds_prompt; /* has woken a prompt task, see begin_trial() */
	u8 nr_failed_trials;
	bool timed; /* a timer ends its slice */
	bool slept_interruptibly; /* the last time, see sleeps_interruptibly() */
	bool moves_up; /* had its slice ended because a fast core idles, see begins_to_move_up() */
	bool overruns; /* was parked for as long as a task may be, and runs for a moment */
	u8 nr_serving; /* CPUs that it may run on, or more: see max_lag_of() */
	u32 weight; /* flat: beside all other tasks, see flat_weight() */
	u32 own_weight; /* its own, less where its groups have less than is normal: for deadlines and credit */
	u32 group; /* the number of its group when it was weighed last */
	u64 grouped; /* the group that it is active in while it is runnable, and its weight there, see join_group() */
	u64 vruntime;
	u32 nr_vacated; /* children that have ended, and whose places no others have taken, see leave_place() */
	u32 nr_messages; /* what its CPU's was when it stopped */
	u64 vacated_vruntime; /* the average of these places */
	s64 credit_ns; /* less than 0: what it ran without credit, see policy_credit_ran() */
	u64 tried_ns; /* when its last trial began */
	u64 mean_burst_ns;
	u64 due_ns; /* its deadline while it is prompt, see keep_deadline() */
	u64 due_from_burst_ns; /* how long its burst was when it was given that */
	struct task_use {
		struct policy_use of_fair, of_all; /* beside those that take turns, and beside all others, until it woke last */
		u64 vran_ns; /* virtual time that it has run for since */
		u64 children_vran_ns; /* that children ran for which have ended, and theirs, see leave_use() */
		u64 noted_children_vran_ns; /* what of that is part of its use */
		u64 seen_clock, seen_system_clock; /* its LLC's then */
		u64 slept_clock, slept_system_clock; /* and when it went to sleep */
	} use;
	u64 slept_since_ns; /* 0 while it is runnable */
	u64 slept_ns; /* for how long it slept before it woke, until that has been taken into account in its virtual runtime */
	u64 last_sleep_ns; /* and for longer than that */
	u64 charged_until_ns; /* while it runs */
	u64 release_slice_ns, release_vtime; /* how it is queued when it is let go, see place_of_released() */
	u64 charged_exec_ns; /* of the CPU time that the kernel notes of it, see uncharged_ns() */
	s64 rivals_weight; /* of all that were runnable in its LLC when it went to sleep, itself included */
	u64 counted; /* where its weight is counted while it is runnable, see count_weight() */
	u32 llc; /* whose virtual clock its virtual runtime goes by */
	/* Of limits, see park.bpf.h. */
	u32 limiter; /* while it runs: the lowest group with a limit that it is in */
	u32 released; /* the same from when it is let go until it runs */
	u64 limits_charged_exec_ns; /* the kernel's account of the task up to which its limited groups have paid */
	u32 charged_limiter; /* which ones those are, from the lowest upwards */
	u64 parked_since_ns; /* 0 once it has run */
	/* See performance.bpf.h; of POLICY_UTIL_ALL. */
	u32 util; /* for how much of its time the task has run */
	u32 burst_util; /* the same at the end of its bursts */
	u64 util_ended_ns; /* 0 while it is runnable */
};

/* The kernel keeps 72 bytes with each, and 8 more where it has its own allocator for BPF; more than 512 would take 1,024. */
_Static_assert(sizeof(struct task_ctx) <= 432, "each task would take twice the memory");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* Dispatched tasks taken from the ring so far; compared with the engine's count before touching the ring. */
static u64 nr_drained CACHELINE;

/* The order that new work entered last, and since when: the other order's DSQs drain first for a while. */
static u32 order_seen CACHELINE;
static u64 order_changed_ns;

/* The engine's thread is runnable and not running. */
static u32 engine_waits CACHELINE;

/* Tasks in flight; what the control page says is a copy. */
static s64 nr_in_flight CACHELINE;

/* Odd while degraded, counts both edges. User space sees a copy. */
static u64 degraded_seq CACHELINE;

/* CPUs that run nothing of ours. Like the kernel, start from all of them: busy ones put that right at once. */
static s64 nr_idle CACHELINE;

/* When a parked engine is to be woken for what it has not read, 0 if there is nothing. */
static u64 engine_due_ns CACHELINE;

static __always_inline struct scherzo_control *control_page(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline struct cpu_ctx *cpu_ctx(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_ctxs, &cpu);
}

static __always_inline struct llc_ctx *llc_ctx(u32 llc)
{
	return bpf_map_lookup_elem(&llc_ctxs, &llc);
}

/* NULL for tasks that were never initialised: the caller falls back to the default. */
static __always_inline struct task_ctx *task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

static __always_inline struct scherzo_slot *task_slot(const struct task_ctx *tctx)
{
	u32 slot = tctx->slot;

	return bpf_map_lookup_elem(&slots, &slot);
}

static __always_inline struct flight *slot_flight(u32 slot)
{
	return bpf_map_lookup_elem(&flights, &slot);
}

/* a - b as a signed number; scx's time_delta() clamps at 0. */
static __always_inline s64 signed_delta(u64 a, u64 b)
{
	return (s64)(a - b);
}

static __always_inline bool is_degraded(void)
{
	return READ_ONCE(degraded_seq) & 1;
}

static __always_inline u32 cpu_llc(s32 cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	return cpuc ? cpuc->llc : 0;
}

/*
 * Each CPU for itself, so that the flag needs no atomics. A CPU notes that it idles before it looks at the DSQs once more,
 * and a CPU that queues a task looks here afterwards; that the atomic's value is used makes it order on every architecture.
 */
static __always_inline void note_idle(struct cpu_ctx *cpuc, bool idle)
{
	s64 before;

	if (cpuc->idle == idle)
		return;
	cpuc->idle = idle;
	before = __sync_fetch_and_add(&nr_idle, idle ? 1 : -1);
	barrier_var(before);
}

#endif /* SCHERZO_STATE_BPF_H */
