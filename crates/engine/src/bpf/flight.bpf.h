/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flight.bpf.h: tasks that user space holds.
 *
 * Problem. A task that was handed to user space sits in no queue of the kernel's: if its decision never comes, nobody
 * else would ever run it.
 *
 * Approach. Every hand-over leaves a trace that user space cannot reach: a generation with an ownership bit, set before
 * the record is visible and cleared by compare-and-swap by whoever takes the task back: the decision that repeats the
 * generation, the kernel when it dequeues the task, the CPU that it left or one without work, or the sweep. Whoever loses
 * the swap does nothing. So a task is dispatched once, whatever user space does, and a late decision is dropped.
 *
 * When the oldest entry gets older than the limit (the watchdog timer looks while there are entries), BPF degrades: new work
 * goes to queues ordered by arrival, and dispatches sweep the entries into the same queues. User space is trusted again
 * when it has answered the notice and a hold time has passed, which doubles while it keeps failing.
 */
#ifndef SCHERZO_FLIGHT_BPF_H
#define SCHERZO_FLIGHT_BPF_H

#define WATCHDOG_PERIOD_NS (50 * NSEC_PER_MSEC)
/*
 * How long a record may wait for a parked engine, which then finds many together: while a task waits for the answer; while
 * it was preempted, and will most likely go on without; and when nobody waits.
 */
#define BATCHING_NS (8 * NSEC_PER_MSEC)
#define PREEMPTED_BATCHING_NS (16 * NSEC_PER_MSEC)
#define NEWS_NS (40 * NSEC_PER_MSEC)
/* Some forty records: read and answered in tens of microseconds. */
#define RING_NEARLY_EMPTY_BYTES 4096
/* Room that only wake-ups and notices may use, so that a parked engine can always be woken. */
#define RING_RESERVE_BYTES 4096
#define COOLDOWN_MIN_NS (200 * NSEC_PER_MSEC)
#define COOLDOWN_MAX_NS (3200 * NSEC_PER_MSEC)
/* A failure that soon after a recovery doubles the hold. */
#define RELAPSE_NS (5000 * NSEC_PER_MSEC)

struct watchdog {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct watchdog);
} watchdog_timer SEC(".maps");

static u32 watchdog_armed;
/* How long user space must be back before it is trusted again; grows when it keeps failing. */
static u64 degraded_cooldown_ns;
static u64 answered_at_ns; /* when its answer was first seen, 0 if not yet */
static u64 recovered_at_ns;

static __always_inline void mark_in_flight(u32 slot, bool owned)
{
	u32 index = slot / 64, group = index / 64;
	u64 *word = bpf_map_lookup_elem(&flight_bits, &index);
	u64 bit = 1ULL << (slot & 63), group_bit = 1ULL << (index & 63);
	u64 before;

	if (!word || group >= NR_FLIGHT_GROUPS)
		return;
	if (owned) {
		__sync_fetch_and_or(word, bit);
		if (!(READ_ONCE(flight_groups[group]) & group_bit))
			__sync_fetch_and_or(&flight_groups[group], group_bit);
	} else {
		/* Before whoever cleared it looks at the owner again. */
		before = __sync_fetch_and_and(word, ~bit);
		barrier_var(before);
	}
}

static void arm_watchdog(void)
{
	u32 zero = 0;
	struct watchdog *watchdog;

	if (READ_ONCE(watchdog_armed) || __sync_val_compare_and_swap(&watchdog_armed, 0, 1))
		return;
	watchdog = bpf_map_lookup_elem(&watchdog_timer, &zero);
	if (!watchdog || bpf_timer_start(&watchdog->timer, WATCHDOG_PERIOD_NS, 0))
		WRITE_ONCE(watchdog_armed, 0);
}

/* Wakes the engine: the ring's notification runs from interrupt work, so any context may call this. */
static void wake_engine(void)
{
	void *record = bpf_ringbuf_reserve(&queued_tasks, 8, 0);

	/* No room, or the ring's lock is not to be had here: the next occasion will do, since the backlog is still noted. */
	if (!record)
		return;
	WRITE_ONCE(engine_due_ns, 0);
	bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
	count(SCHERZO_CNT_WAKE_ENGINE);
}

/* Room for a record that nobody depends on for waking up. */
static __always_inline struct scherzo_queued_task *reserve_record(void)
{
	if (bpf_ringbuf_query(&queued_tasks, BPF_RB_AVAIL_DATA) > SCHERZO_QUEUED_RING_BYTES - RING_RESERVE_BYTES)
		return NULL;
	return bpf_ringbuf_reserve(&queued_tasks, sizeof(struct scherzo_queued_task), 0);
}

/* Wakes a parked engine for records that have waited long enough, or at once if a CPU has nothing to run but these. */
static __always_inline void wake_engine_for_backlog(const struct scherzo_control *page, u64 now, bool starved)
{
	u64 due_ns = READ_ONCE(engine_due_ns);

	if (!due_ns || !READ_ONCE(page->parked))
		return;
	if (READ_ONCE(nr_in_flight) <= 0)
		due_ns += NEWS_NS - BATCHING_NS;
	else if (starved)
		due_ns = now;
	if (signed_delta(now, due_ns) >= 0)
		wake_engine();
}

/*
 * In the unified hierarchy: the inode number of the directory. Pointers loaded after the cast are
 * never trusted, so the verifier need not find out (see VERIFIED_ONCE).
 */
static __always_inline u64 cgroup_id(const struct task_struct *p)
{
	return bpf_core_cast(p, struct task_struct)->cgroups->dfl_cgrp->kn->id;
}

static __always_inline void fill_record(struct scherzo_queued_task *record, u32 kind, struct task_struct *p,
				       struct task_ctx *tctx, const struct scherzo_control *page, u64 now,
				       u64 enq_flags)
{
	s64 nr_busy = page->nr_online_cpus - READ_ONCE(nr_idle);
	s32 cpu = scx_bpf_task_cpu(p);
	u32 llc = cpu_llc(cpu);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;
	s64 nr_flights = READ_ONCE(nr_in_flight);
	const struct llc_ctx *llcx = llc_ctx(llc);
	s32 nr_queued = 0;

	if (llcx)
		nr_queued = llcx->nr_interactive + llcx->nr_batch + llcx->nr_fifo;

	record->kind = kind;
	record->slot = tctx->slot;
	record->generation = tctx->generation;
	record->pid = p->pid;
	record->tgid = p->tgid;
	record->now_ns = now;
	record->sum_exec_ns = tctx->sum_exec_ns;
	record->burst_ns = wakeup ? tctx->last_burst_ns : tctx->burst_ns;
	record->nr_voluntary_switches = p->nvcsw;
	record->weight = p->scx.weight;
	record->cpu = cpu;
	record->nr_cpus_allowed = p->nr_cpus_allowed;
	record->flags = (wakeup ? SCHERZO_QUEUED_WAKEUP : 0) | (is_pinned(p) ? SCHERZO_QUEUED_PINNED : 0) |
		      (is_kthread(p) ? SCHERZO_QUEUED_KTHREAD : 0) |
		      (wakeup && tctx->woken_by_sleeper ? SCHERZO_QUEUED_SYNC : 0);
	record->nr_running = nr_busy > 0 ? nr_busy : 0;
	record->nr_waiting = (nr_flights > 0 ? nr_flights : 0) + (nr_queued > 0 ? nr_queued : 0) * nr_llcs;
	record->waker_pid = wakeup ? tctx->waker_pid : 0;
	record->llc = llc;
	record->cgroup_id = cgroup_id(p);
}

/*
 * After a record has been submitted. The submission is a full barrier, which pairs with the engine's: it says that it
 * parks and then looks at the ring once more. If it is not parked here, it will see the record by itself.
 */
static __always_inline void announce_record(const struct scherzo_control *page, u64 due_ns, bool urgent)
{
	u64 before_ns = READ_ONCE(engine_due_ns);

	if (!READ_ONCE(page->parked))
		return;
	/* Noted first: if the wake-up finds no room, the next occasion repeats it. */
	if (!before_ns || signed_delta(before_ns, due_ns) > 0)
		WRITE_ONCE(engine_due_ns, due_ns);
	if (urgent)
		wake_engine();
}

/* The CPU that the task was on may have it back when it finds nothing else to run. */
static __always_inline void note_preempted(struct task_struct *p, u32 slot)
{
	struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));

	if (cpuc)
		WRITE_ONCE(cpuc->preempted, slot + 1);
}

/* The count in the page is a copy: two CPUs may write it in the wrong order, and then the watchdog timer puts it right. */
static __always_inline void change_nr_in_flight(struct scherzo_control *page, s64 by)
{
	s64 before = __sync_fetch_and_add(&nr_in_flight, by);

	WRITE_ONCE(page->nr_in_flight, before + by);
}

/* Takes a task back from user space. True if this caller did; the generation must still be the one handed over. */
static __always_inline bool reclaim(struct scherzo_control *page, struct flight *flight, u32 index, u64 generation)
{
	u64 owned = generation << 1 | USER_OWNED;

	if (READ_ONCE(flight->word) != owned ||
	    __sync_val_compare_and_swap(&flight->word, owned, generation << 1) != owned)
		return false;
	mark_in_flight(index, false);
	/* It may have been handed over again before its bit was cleared. */
	if (READ_ONCE(flight->word) & USER_OWNED)
		mark_in_flight(index, true);
	change_nr_in_flight(page, -1);
	return true;
}

/* The kernel took the task out of our hands: dequeued, exiting, or simply running. False if it was not in user space's. */
static __always_inline bool cancel_flight(const struct task_ctx *tctx)
{
	struct flight *flight = slot_flight(tctx->slot);
	struct scherzo_control *page;

	if (!flight || !(READ_ONCE(flight->word) & USER_OWNED))
		return false;
	page = control_page();
	if (!page || !reclaim(page, flight, tctx->slot, tctx->generation))
		return false;
	count(SCHERZO_CNT_LEFT);
	return true;
}

/*
 * From the moment of the exchange the task belongs to user space; what was owned before has been forgotten by the kernel.
 * A task that did not sleep before was preempted, and the CPU that it was on may have it back.
 */
static __always_inline void begin_flight(struct task_struct *p, const struct task_ctx *tctx, struct scherzo_control *page,
				      struct flight *flight, u32 klass, bool preempted, u64 now)
{
	u64 before;

	flight->pid = p->pid;
	WRITE_ONCE(flight->submitted_ns, now);
	if (preempted)
		note_preempted(p, tctx->slot);
	before = __sync_lock_test_and_set(&flight->word, tctx->generation << 1 | USER_OWNED);
	mark_in_flight(tctx->slot, true);
	if (before & USER_OWNED)
		count(SCHERZO_CNT_LEFT);
	else
		change_nr_in_flight(page, 1);
	count_here(SCHERZO_CNT_SUBMITTED);
	if (klass != SCHERZO_CLASS_INTERACTIVE)
		count_here(SCHERZO_CNT_SUBMITTED_BATCH);
}

/*
 * User space has not read the task's last record yet. It says that it has before it decides: whoever gives a task away and
 * then finds the record unread will get a decision.
 */
static __always_inline bool record_is_unread(const struct task_ctx *tctx)
{
	return tctx->record_at && bpf_ringbuf_query(&queued_tasks, BPF_RB_CONS_POS) <= tctx->record_at;
}

/*
 * Hands a task to user space. False if there is no slot or no room: the caller queues it.
 */
static bool submit(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u32 klass,
		      u64 enq_flags)
{
	u64 now = scx_bpf_now();
	u32 index = tctx->slot;
	struct flight *flight = slot_flight(index);
	bool preempted = tctx->started_ns && !(enq_flags & SCX_ENQ_WAKEUP);
	struct scherzo_queued_task *record;
	u64 record_at;
	bool urgent;

	if (!flight) {
		count(SCHERZO_CNT_OVERFLOW);
		return false;
	}
	/* It was preempted, went on and is preempted again before user space has looked: one record does for both. */
	if (preempted && klass != SCHERZO_CLASS_INTERACTIVE && record_is_unread(tctx)) {
		begin_flight(p, tctx, page, flight, klass, preempted, now);
		if (record_is_unread(tctx)) {
			wake_engine_for_backlog(page, now, false);
			return true;
		}
		/*
		 * Read meanwhile, perhaps before it was given away: then the answer has come too early. Unless a CPU
		 * has the task already.
		 */
		if (!cancel_flight(tctx))
			return true;
	}
	record_at = bpf_ringbuf_query(&queued_tasks, BPF_RB_PROD_POS);
	record = reserve_record();
	if (!record) {
		count(SCHERZO_CNT_CONGESTED);
		if (READ_ONCE(page->parked))
			wake_engine();
		return false;
	}

	tctx->generation++;
	tctx->record_at = record_at;
	tctx->refreshed_ns = now;
	fill_record(record, SCHERZO_RECORD_ENQUEUE, p, tctx, page, now, enq_flags);
	WRITE_ONCE(page->nr_running, record->nr_running);
	/*
	 * The first submissions in a quiet machine, or interactive work, wait for the answer now. A preempted task waits for
	 * the CPU that it left: by the time that has nothing else to run, the answer is there or not needed.
	 */
	urgent = klass == SCHERZO_CLASS_INTERACTIVE ||
		 (!preempted && record->nr_waiting < page->nr_online_cpus / 2);

	begin_flight(p, tctx, page, flight, klass, preempted, now);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	announce_record(page, now + (preempted ? PREEMPTED_BATCHING_NS : BATCHING_NS), urgent);
	wake_engine_for_backlog(page, now, false);
	return true;
}

/* A record that may wait is not worth a wake-up, unless the ring fills. */
static __always_inline void wake_engine_if_filling(const struct scherzo_control *page)
{
	if (READ_ONCE(page->parked) && bpf_ringbuf_query(&queued_tasks, BPF_RB_AVAIL_DATA) > SCHERZO_QUEUED_RING_BYTES / 4)
		wake_engine();
}

/* Tells user space about a task that never needed it, so that its class stays fresh. Nobody is woken for it. */
static void refresh(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u64 now, u64 enq_flags)
{
	struct scherzo_queued_task *record;

	if (kernel_seat() || tctx->slot == SCHERZO_NO_SLOT || time_delta(now, tctx->refreshed_ns) < (s64)(250 * NSEC_PER_MSEC))
		return;
	record = reserve_record();
	if (record) {
		tctx->refreshed_ns = now;
		fill_record(record, SCHERZO_RECORD_REFRESH, p, tctx, page, now, enq_flags);
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
	wake_engine_if_filling(page);
}

/* Tells user space that a slot is free. If there is no room it notices when the next owner has another pid. */
static void announce_exit(const struct scherzo_control *page, u32 slot, u32 pid)
{
	struct scherzo_queued_task *record = reserve_record();

	if (record) {
		__builtin_memset(record, 0, sizeof(*record));
		record->kind = SCHERZO_RECORD_EXIT;
		record->slot = slot;
		record->pid = pid;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
	wake_engine_if_filling(page);
}

static void send_notice(void)
{
	struct scherzo_queued_task *record = bpf_ringbuf_reserve(&queued_tasks, sizeof(*record), 0);

	if (!record)
		return;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = SCHERZO_RECORD_NOTICE;
	record->slot = SCHERZO_NO_SLOT;
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

VERIFIED_ONCE int kick_all(u64 flags)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (!cpuc->online)
			continue;
		scx_bpf_kick_cpu(cpu, flags);
		count(SCHERZO_CNT_KICKED);
	}
	return 0;
}

static void degrade(struct scherzo_control *page, u64 now)
{
	u64 seq = READ_ONCE(degraded_seq);

	if (seq & 1 || __sync_val_compare_and_swap(&degraded_seq, seq, seq + 1) != seq)
		return;
	WRITE_ONCE(page->degraded_seq, seq + 1);
	if (recovered_at_ns && time_delta(now, recovered_at_ns) < (s64)RELAPSE_NS)
		degraded_cooldown_ns = degraded_cooldown_ns * 2 > COOLDOWN_MAX_NS ? COOLDOWN_MAX_NS : degraded_cooldown_ns * 2;
	else
		degraded_cooldown_ns = COOLDOWN_MIN_NS;
	WRITE_ONCE(answered_at_ns, 0);
	WRITE_ONCE(page->degraded_since_ns, now);
	send_notice();
	/* Sweeping needs dispatches: CPUs that sleep are woken, others get there when their slice ends. */
	kick_all(0);
}

/* Back to user space once it has answered this very notice and the hold has passed since. */
static __always_inline void try_recover(struct scherzo_control *page, u64 now)
{
	u64 seq = READ_ONCE(degraded_seq);

	if (!(seq & 1) || READ_ONCE(page->recovered_seq) != seq)
		return;
	if (!READ_ONCE(answered_at_ns))
		WRITE_ONCE(answered_at_ns, now);
	if (time_delta(now, READ_ONCE(answered_at_ns)) < (s64)degraded_cooldown_ns)
		return;
	if (__sync_val_compare_and_swap(&degraded_seq, seq, seq + 1) != seq)
		return;
	WRITE_ONCE(page->degraded_seq, seq + 1);
	WRITE_ONCE(recovered_at_ns, now);
}

/* Age of the oldest entry among 64 slots. */
VERIFIED_ONCE u64 oldest_of_word(u32 index, u64 now)
{
	u64 *word = bpf_map_lookup_elem(&flight_bits, &index);
	u64 bits = word ? READ_ONCE(*word) : 0;
	s64 oldest = 0;
	u32 bit;

	bpf_for(bit, 0, 64) {
		struct flight *flight;
		s64 age;

		if (!bits)
			break;
		flight = slot_flight(index * 64 + ctzll(bits));
		bits &= bits - 1;
		/* Who takes a task back before its bit is set leaves the bit. */
		if (!flight || !(READ_ONCE(flight->word) & USER_OWNED))
			continue;
		age = time_delta(now, READ_ONCE(flight->submitted_ns));
		if (age > oldest)
			oldest = age;
	}
	return oldest;
}

/* Age of the oldest entry, 0 if there is none. */
VERIFIED_ONCE u64 oldest_flight_ns(u64 now)
{
	u64 oldest = 0;
	u32 group, bit;

	bpf_for(group, 0, NR_FLIGHT_GROUPS) {
		u64 bits = READ_ONCE(flight_groups[group & (NR_FLIGHT_GROUPS - 1)]);

		bpf_for(bit, 0, 64) {
			u64 age;

			if (!bits)
				break;
			age = oldest_of_word(group * 64 + ctzll(bits), now);
			bits &= bits - 1;
			if (age > oldest)
				oldest = age;
		}
	}
	return oldest;
}

/* Puts a task that was taken back where the next dispatch finds it, in arrival order. */
static void queue_swept(struct task_struct *p, const struct scherzo_control *page, u64 now)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *tctx = task_ctx(p);
	u64 slice_ns = default_slice_ns(page);

	count(SCHERZO_CNT_SWEPT);
	if (!tctx)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, 0);
	else if (!is_pinned(p))
		insert(p, tctx, DSQ_ID(DSQ_FIFO, cpu_llc(cpu)), slice_ns, now, 0);
	else
		insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), slice_ns, now, 0);
	if (is_pinned(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

VERIFIED_ONCE int sweep_slot(u32 index, u64 now)
{
	struct scherzo_control *page = control_page();
	struct flight *flight = slot_flight(index);
	struct task_struct *p;
	u64 word;

	if (!page || !flight)
		return 0;
	word = READ_ONCE(flight->word);
	if (!(word & USER_OWNED) || !reclaim(page, flight, index, word >> 1))
		return 0;
	p = bpf_task_from_pid(flight->pid);
	if (!p) {
		count(SCHERZO_CNT_LEFT);
		return 0;
	}
	queue_swept(p, page, now);
	bpf_task_release(p);
	return 0;
}

/* Takes back the entries among 64 slots; false when there is no dispatch slot left. */
VERIFIED_ONCE int sweep_word(u32 index, u64 now)
{
	u64 *word = bpf_map_lookup_elem(&flight_bits, &index);
	u64 bits = word ? READ_ONCE(*word) : 0;
	u32 bit;

	bpf_for(bit, 0, 64) {
		if (!bits)
			break;
		if (!scx_bpf_dispatch_nr_slots())
			return false;
		sweep_slot(index * 64 + ctzll(bits), now);
		bits &= bits - 1;
	}
	return true;
}

/* From ops.dispatch while degraded: takes back as many entries as there are dispatch slots. */
VERIFIED_ONCE int sweep_in_flight(u64 now)
{
	u32 group, bit;

	bpf_for(group, 0, NR_FLIGHT_GROUPS) {
		u64 bits = READ_ONCE(flight_groups[group & (NR_FLIGHT_GROUPS - 1)]);

		bpf_for(bit, 0, 64) {
			if (!bits)
				break;
			if (!sweep_word(group * 64 + ctzll(bits), now))
				return 0;
			bits &= bits - 1;
		}
	}
	return 0;
}

#endif /* SCHERZO_FLIGHT_BPF_H */
