/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state.bpf.h: maps, contexts and the small accessors that everything else is written in.
 *
 * Ownership: each word of the control page has one writer (see scherzo_wire.h). What only BPF may see (who owns a slot,
 * what is in custody, what runs where) lives in maps that are not memory-mapped, so that a broken engine cannot forge it.
 */
#ifndef SCHERZO_STATE_BPF_H
#define SCHERZO_STATE_BPF_H

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL

/* Longest slice that a decision may ask for, and the slice of the engine itself. */
#define SLICE_MAX_NS (20 * NSEC_PER_MSEC)
/* How long a waker that promised to sleep may still run. */
#define SYNC_LEASH_NS (500 * NSEC_PER_USEC)

/* Priorities below this belong to higher scheduling classes. */
#ifndef MAX_RT_PRIO
#define MAX_RT_PRIO 100
#endif

#define CACHELINE __attribute__((aligned(64)))

/*
 * For functions with loops: the verifier checks a global function once, for any arguments, instead of once per path that
 * reaches it; without this, loading took seconds. Weak, so that the compiler infers nothing about the result either.
 */
#define VERIFIED_ONCE __weak __noinline

/*
 * Dispatch queues: the kind in the upper half, a CPU or a domain (LLC) in the lower.
 *
 * A queue is either ordered by arrival or by key, never both, because the kernel refuses a mix. Keys live in the time
 * domain of the BPF clock ("as if it had arrived at"), which makes the keys of all the ordered queues comparable.
 */
enum queue_kind {
	QUEUE_CPU = 1, /* by key: tasks that may run on this CPU only */
	QUEUE_INTERACTIVE = 2, /* by key, one per domain */
	QUEUE_BATCH = 3, /* by key, one per domain */
	QUEUE_FIFO = 4, /* by arrival, one per domain */
	QUEUE_ENGINE = 5, /* the engine's own thread, before everything else */
};

#define QUEUE_ID(kind, index) (((u64)(kind) << 32) | (u32)(index))
#define ENGINE_DSQ QUEUE_ID(QUEUE_ENGINE, 0)

_Static_assert(QUEUE_ID(QUEUE_ENGINE, ~0U) < (1ULL << 62), "user queue ids leave the kernel's flag bits alone");

/* Set before loading. */
const volatile u32 engine_pid;
const volatile u32 nr_cpu_slots = 1; /* possible CPU ids: 0 .. nr_cpu_slots - 1 */
const volatile u32 nr_llcs = 1;
const volatile bool reenqueue_anywhere; /* from 6.19: waiting tasks can be put back outside of ops.cpu_release too */

UEI_DEFINE(uei);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SCHERZO_FACTS_RING_BYTES);
} facts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, SCHERZO_DECISION_RING_BYTES);
} decisions SEC(".maps");

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

/* custody = generation << 1 | owned by user space */
#define CUSTODY_OWNED 0x1ULL

/* BPF's own side of a slot. */
struct custody {
	u64 word;
	u64 handed_over_ns;
	u32 pid; /* thread that owns the slot */
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHERZO_NR_SLOTS);
	__type(key, u32);
	__type(value, struct custody);
} custodies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SCHERZO_NR_SLOTS);
	__uint(value_size, sizeof(u32));
} free_slots SEC(".maps");

/* One bit per slot in custody, so that a sweep need not read the whole table. */
#define NR_CUSTODY_WORDS (SCHERZO_NR_SLOTS / 64)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_CUSTODY_WORDS);
	__type(key, u32);
	__type(value, u64);
} custody_bits SEC(".maps");

struct cpu_ctx {
	/*
	 * Non-zero while a batch task runs here: its key with the lowest bit set. Who swaps it for zero has claimed the
	 * CPU, and nobody else will take it from the same task.
	 */
	u64 claim;
	u64 held_since_ns; /* a higher class has the CPU since then; 0 if not */
	u64 held_ns; /* and had it for so long before */
	u32 llc;
	u32 online;
	u32 low_power; /* carries batch work in low-power mode */
	/* Turns between queues that cannot be compared, each question with its own. */
	u8 turn_pinned;
	u8 turn_order;
	u8 turn_late;
	bool late_pick; /* the next task was due: nobody may take the CPU from it */
	bool rechecked; /* kicked once since something last ran here */
	bool engine_coming; /* who runs here makes room for the engine */
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
	u64 claimable[NR_CPU_WORDS]; /* CPUs that have run batch work since they came online: where to look for claims */
} CACHELINE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* domains, set before loading */
	__type(key, u32);
	__type(value, struct llc_ctx);
} llc_ctxs SEC(".maps");

/* What BPF remembers of a task. */
struct task_ctx {
	u64 generation; /* of the last enqueue that went to user space */
	u64 wait_since_ns; /* runnable and not running since then */
	u64 wait_held_ns; /* cpu_ctx.held_ns of wait_cpu at that time */
	u64 started_ns;
	u64 slice_ns; /* that it started with */
	u64 sum_exec_ns;
	u64 burst_ns; /* CPU time since it last slept */
	u64 last_burst_ns; /* and in the burst before that */
	u64 refreshed_ns; /* last time user space was told about it */
	u32 slot;
	u32 waker_pid;
	s32 last_cpu; /* -1 until it first runs */
	s32 wait_cpu;
	bool woken; /* woken, but never judged by user space since */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* Decisions taken from the ring so far; compared with the engine's count before touching the ring. */
static u64 nr_drained CACHELINE;

/* The order that new work entered last, and since when: the other order's queues drain first for a while. */
static u32 order_seen CACHELINE;
static u64 order_changed_ns;

/* Oldest record that a parked engine has not been woken for. */
static u64 unread_since_ns CACHELINE;

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

static __always_inline struct custody *slot_custody(u32 slot)
{
	return bpf_map_lookup_elem(&custodies, &slot);
}

/* a - b as a signed number; scx's time_delta() clamps at 0. */
static __always_inline s64 signed_delta(u64 a, u64 b)
{
	return (s64)(a - b);
}

static __always_inline struct scherzo_cpu_stats *this_cpu_stats(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpu_stats, &cpu);
}

static __always_inline void count_n(enum scherzo_counter counter, u64 n)
{
	struct scherzo_cpu_stats *stats = this_cpu_stats();

	if (stats && counter < SCHERZO_NR_COUNTERS)
		stats->counters[counter] += n;
}

static __always_inline void count(enum scherzo_counter counter)
{
	count_n(counter, 1);
}

static __always_inline bool is_engine(const struct task_struct *p)
{
	return p->pid == engine_pid;
}

static __always_inline bool is_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1;
}

/*
 * The threads that free memory: the engine could wait for them, so they never wait for the engine.
 */
static __always_inline bool is_reclaim(const struct task_struct *p)
{
	if (p->flags & (PF_KSWAPD | PF_KCOMPACTD))
		return true;
	return is_kthread(p) && p->comm[0] == 'k' && p->comm[1] == 'h' && p->comm[2] == 'u' && p->comm[3] == 'g';
}

/* The control word, read once per callback. */
struct control_word {
	u8 mode;
	bool preemption;
	u8 order;
	u32 generation;
};

static __always_inline struct control_word control_word(const struct scherzo_control *page)
{
	u64 word = READ_ONCE(page->word);

	return (struct control_word){
		.mode = word >> SCHERZO_CONTROL_MODE_SHIFT,
		.preemption = (word >> SCHERZO_CONTROL_FLAGS_SHIFT) & SCHERZO_FLAG_PREEMPTION,
		.order = word >> SCHERZO_CONTROL_ORDER_SHIFT,
		.generation = word >> SCHERZO_CONTROL_GENERATION_SHIFT,
	};
}

static __always_inline bool is_degraded(const struct scherzo_control *page)
{
	return READ_ONCE(page->degraded_seq) & 1;
}

/* While degraded everything is ordered by arrival: there is nobody to ask for keys. */
static __always_inline u8 effective_order(const struct scherzo_control *page, struct control_word word)
{
	return is_degraded(page) ? SCHERZO_ORDER_FIFO : word.order;
}

static __always_inline u64 default_slice_ns(const struct scherzo_control *page)
{
	u64 slice_ns = READ_ONCE(page->slice_ns);

	return slice_ns && slice_ns <= SLICE_MAX_NS ? slice_ns : 5 * NSEC_PER_MSEC;
}

/*
 * What a task is taken for. One that was woken before user space ever judged it counts as interactive, one that was
 * forked as batch.
 */
static __always_inline u32 task_class(const struct task_ctx *tctx)
{
	const struct scherzo_slot *slot = task_slot(tctx);
	u32 klass = slot ? READ_ONCE(slot->klass) : SCHERZO_CLASS_UNKNOWN;

	if (klass == SCHERZO_CLASS_INTERACTIVE || klass == SCHERZO_CLASS_BATCH)
		return klass;
	return tctx->woken ? SCHERZO_CLASS_INTERACTIVE : SCHERZO_CLASS_BATCH;
}

static __always_inline u32 cpu_llc(s32 cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	return cpuc ? cpuc->llc : 0;
}

/* Time for which a higher class had the CPU, the current spell included. */
static __always_inline u64 cpu_held_ns(const struct cpu_ctx *cpuc, u64 now)
{
	u64 since = READ_ONCE(cpuc->held_since_ns);
	s64 spell = since ? time_delta(now, since) : 0;

	return READ_ONCE(cpuc->held_ns) + (spell > 0 ? spell : 0);
}

#endif /* SCHERZO_STATE_BPF_H */
