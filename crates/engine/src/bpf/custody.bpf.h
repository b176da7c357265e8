/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * custody.bpf.h: tasks that user space holds.
 *
 * Problem. A task that was handed to user space sits in no queue of the kernel's: if its decision never comes, nobody
 * else would ever run it.
 *
 * Approach. Every hand-over leaves a trace that user space cannot reach: a generation with an ownership bit, set before
 * the record is visible and cleared by compare-and-swap by whoever takes the task back: the decision that repeats the
 * generation, the kernel when it dequeues the task, the CPU that it left or one without work, or the sweep. Whoever loses
 * the swap does nothing. So a task is dispatched once, whatever user space does, and a late decision is dropped.
 *
 * When the oldest entry gets older than the limit (the warden looks while there are entries), BPF degrades: new work
 * goes to queues ordered by arrival, and dispatches sweep the entries into the same queues. User space is trusted again
 * when it has answered the notice and a hold time has passed, which doubles while it keeps failing.
 */
#ifndef SCHERZO_CUSTODY_BPF_H
#define SCHERZO_CUSTODY_BPF_H

#define WARDEN_PERIOD_NS (50 * NSEC_PER_MSEC)
/*
 * How long a record may wait for a parked engine, which then finds many together: while a task waits for the answer; while
 * it was displaced, and will most likely go on without; and when nobody waits.
 */
#define BATCHING_NS (8 * NSEC_PER_MSEC)
#define DISPLACED_NS (16 * NSEC_PER_MSEC)
#define NEWS_NS (40 * NSEC_PER_MSEC)
/* Some forty records: read and answered in tens of microseconds. */
#define RING_NEARLY_EMPTY_BYTES 4096
/* Room that only bells and notices may use, so that a parked engine can always be woken. */
#define RING_RESERVE_BYTES 4096
#define HOLD_MIN_NS (200 * NSEC_PER_MSEC)
#define HOLD_MAX_NS (3200 * NSEC_PER_MSEC)
/* A failure that soon after a recovery doubles the hold. */
#define RELAPSE_NS (5000 * NSEC_PER_MSEC)

struct warden {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct warden);
} warden_timer SEC(".maps");

static u32 warden_armed;
/* How long user space must be back before it is trusted again; grows when it keeps failing. */
static u64 degraded_hold_ns;
static u64 answered_at_ns; /* when its answer was first seen, 0 if not yet */
static u64 recovered_at_ns;

static __always_inline void mark_custody(u32 slot, bool owned)
{
	u32 index = slot / 64, group = index / 64;
	u64 *word = bpf_map_lookup_elem(&custody_bits, &index);
	u64 bit = 1ULL << (slot & 63), group_bit = 1ULL << (index & 63);
	u64 before;

	if (!word || group >= NR_CUSTODY_GROUPS)
		return;
	if (owned) {
		__sync_fetch_and_or(word, bit);
		if (!(READ_ONCE(custody_groups[group]) & group_bit))
			__sync_fetch_and_or(&custody_groups[group], group_bit);
	} else {
		/* Before whoever cleared it looks at the owner again. */
		before = __sync_fetch_and_and(word, ~bit);
		barrier_var(before);
	}
}

static void arm_warden(void)
{
	u32 zero = 0;
	struct warden *warden;

	if (READ_ONCE(warden_armed) || __sync_val_compare_and_swap(&warden_armed, 0, 1))
		return;
	warden = bpf_map_lookup_elem(&warden_timer, &zero);
	if (!warden || bpf_timer_start(&warden->timer, WARDEN_PERIOD_NS, 0))
		WRITE_ONCE(warden_armed, 0);
}

/* Wakes the engine: the ring's notification runs from interrupt work, so any context may call this. */
static void wake_engine(void)
{
	void *bell = bpf_ringbuf_reserve(&facts, 8, 0);

	/* No room, or the ring's lock is not to be had here: the next occasion will do, since the backlog is still noted. */
	if (!bell)
		return;
	WRITE_ONCE(engine_due_ns, 0);
	bpf_ringbuf_discard(bell, BPF_RB_FORCE_WAKEUP);
	count(SCHERZO_CNT_WAKE_ENGINE);
}

/* Room for a record that nobody depends on for waking up. */
static __always_inline struct scherzo_facts *reserve_facts(void)
{
	if (bpf_ringbuf_query(&facts, BPF_RB_AVAIL_DATA) > SCHERZO_FACTS_RING_BYTES - RING_RESERVE_BYTES)
		return NULL;
	return bpf_ringbuf_reserve(&facts, sizeof(struct scherzo_facts), 0);
}

/* Wakes a parked engine for records that have waited long enough, or at once if a CPU has nothing to run but these. */
static __always_inline void wake_engine_for_backlog(const struct scherzo_control *page, u64 now, bool starved)
{
	u64 due_ns = READ_ONCE(engine_due_ns);

	if (!due_ns || !READ_ONCE(page->parked))
		return;
	if (READ_ONCE(nr_in_custody) <= 0)
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

static __always_inline void fill_facts(struct scherzo_facts *fact, u32 kind, struct task_struct *p,
				       struct task_ctx *tctx, const struct scherzo_control *page, u64 now,
				       u64 enq_flags)
{
	s64 nr_busy = page->nr_online_cpus - READ_ONCE(nr_idle);
	s32 cpu = scx_bpf_task_cpu(p);
	u32 llc = cpu_llc(cpu);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;
	s64 nr_custody = READ_ONCE(nr_in_custody);
	const struct llc_ctx *domain = llc_ctx(llc);
	s32 nr_queued = 0;

	if (domain)
		nr_queued = domain->nr_interactive + domain->nr_batch + domain->nr_fifo;

	fact->kind = kind;
	fact->slot = tctx->slot;
	fact->generation = tctx->generation;
	fact->pid = p->pid;
	fact->tgid = p->tgid;
	fact->now_ns = now;
	fact->sum_exec_ns = tctx->sum_exec_ns;
	fact->burst_ns = wakeup ? tctx->last_burst_ns : tctx->burst_ns;
	fact->nr_voluntary_switches = p->nvcsw;
	fact->weight = p->scx.weight;
	fact->cpu = cpu;
	fact->nr_cpus_allowed = p->nr_cpus_allowed;
	fact->flags = (wakeup ? SCHERZO_FACT_WAKEUP : 0) | (is_pinned(p) ? SCHERZO_FACT_PINNED : 0) |
		      (is_kthread(p) ? SCHERZO_FACT_KTHREAD : 0) |
		      (wakeup && tctx->woken_by_sleeper ? SCHERZO_FACT_SYNC : 0);
	fact->nr_running = nr_busy > 0 ? nr_busy : 0;
	fact->nr_waiting = (nr_custody > 0 ? nr_custody : 0) + (nr_queued > 0 ? nr_queued : 0) * nr_llcs;
	fact->waker_pid = wakeup ? tctx->waker_pid : 0;
	fact->llc = llc;
	fact->cgroup_id = cgroup_id(p);
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
	/* Noted first: if the bell finds no room, the next occasion rings again. */
	if (!before_ns || signed_delta(before_ns, due_ns) > 0)
		WRITE_ONCE(engine_due_ns, due_ns);
	if (urgent)
		wake_engine();
}

/* The CPU that the task was on may have it back when it finds nothing else to run. */
static __always_inline void note_displaced(struct task_struct *p, u32 slot)
{
	struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));

	if (cpuc)
		WRITE_ONCE(cpuc->displaced, slot + 1);
}

/* The count in the page is a copy: two CPUs may write it in the wrong order, and then the warden puts it right. */
static __always_inline void change_custody(struct scherzo_control *page, s64 by)
{
	s64 before = __sync_fetch_and_add(&nr_in_custody, by);

	WRITE_ONCE(page->nr_in_flight, before + by);
}

/* Takes a task back from user space. True if this caller did; the generation must still be the one handed over. */
static __always_inline bool take_back(struct scherzo_control *page, struct custody *custody, u32 index, u64 generation)
{
	u64 owned = generation << 1 | CUSTODY_OWNED;

	if (READ_ONCE(custody->word) != owned ||
	    __sync_val_compare_and_swap(&custody->word, owned, generation << 1) != owned)
		return false;
	mark_custody(index, false);
	/* It may have been handed over again before its bit was cleared. */
	if (READ_ONCE(custody->word) & CUSTODY_OWNED)
		mark_custody(index, true);
	change_custody(page, -1);
	return true;
}

/* The kernel took the task out of our hands: dequeued, exiting, or simply running. False if it was not in user space's. */
static __always_inline bool leave_custody(const struct task_ctx *tctx)
{
	struct custody *custody = slot_custody(tctx->slot);
	struct scherzo_control *page;

	if (!custody || !(READ_ONCE(custody->word) & CUSTODY_OWNED))
		return false;
	page = control_page();
	if (!page || !take_back(page, custody, tctx->slot, tctx->generation))
		return false;
	count(SCHERZO_CNT_LEFT);
	return true;
}

/*
 * From the moment of the exchange the task belongs to user space; what was owned before has been forgotten by the kernel.
 * Who did not sleep before was put aside, and the CPU that it was on may have it back.
 */
static __always_inline void give_away(struct task_struct *p, const struct task_ctx *tctx, struct scherzo_control *page,
				      struct custody *custody, u32 klass, bool displaced, u64 now)
{
	u64 before;

	custody->pid = p->pid;
	WRITE_ONCE(custody->handed_over_ns, now);
	if (displaced)
		note_displaced(p, tctx->slot);
	before = __sync_lock_test_and_set(&custody->word, tctx->generation << 1 | CUSTODY_OWNED);
	mark_custody(tctx->slot, true);
	if (before & CUSTODY_OWNED)
		count(SCHERZO_CNT_LEFT);
	else
		change_custody(page, 1);
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
	return tctx->record_at && bpf_ringbuf_query(&facts, BPF_RB_CONS_POS) <= tctx->record_at;
}

/*
 * Hands a task to user space. False if there is no slot or no room: the caller queues it.
 */
static bool hand_over(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u32 klass,
		      u64 enq_flags)
{
	u64 now = scx_bpf_now();
	u32 index = tctx->slot;
	struct custody *custody = slot_custody(index);
	bool displaced = tctx->started_ns && !(enq_flags & SCX_ENQ_WAKEUP);
	struct scherzo_facts *fact;
	u64 record_at;
	bool urgent;

	if (!custody) {
		count(SCHERZO_CNT_OVERFLOW);
		return false;
	}
	/* It was put aside, went on and is put aside again before user space has looked: one record does for both. */
	if (displaced && klass != SCHERZO_CLASS_INTERACTIVE && record_is_unread(tctx)) {
		give_away(p, tctx, page, custody, klass, displaced, now);
		if (record_is_unread(tctx)) {
			wake_engine_for_backlog(page, now, false);
			return true;
		}
		/*
		 * Read meanwhile, perhaps before it was given away: then the answer has come too early. Unless a CPU
		 * has the task already.
		 */
		if (!leave_custody(tctx))
			return true;
	}
	record_at = bpf_ringbuf_query(&facts, BPF_RB_PROD_POS);
	fact = reserve_facts();
	if (!fact) {
		count(SCHERZO_CNT_CONGESTED);
		if (READ_ONCE(page->parked))
			wake_engine();
		return false;
	}

	tctx->generation++;
	tctx->record_at = record_at;
	tctx->refreshed_ns = now;
	fill_facts(fact, SCHERZO_RECORD_ENQUEUE, p, tctx, page, now, enq_flags);
	WRITE_ONCE(page->nr_running, fact->nr_running);
	/*
	 * The first hand-overs in a quiet machine, or interactive work, wait for the answer now. Who was displaced waits for
	 * the CPU that it left: by the time that has nothing else to run, the answer is there or not needed.
	 */
	urgent = klass == SCHERZO_CLASS_INTERACTIVE ||
		 (!displaced && fact->nr_waiting < page->nr_online_cpus / 2);

	give_away(p, tctx, page, custody, klass, displaced, now);
	bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
	announce_record(page, now + (displaced ? DISPLACED_NS : BATCHING_NS), urgent);
	wake_engine_for_backlog(page, now, false);
	return true;
}

/* A record that may wait is not worth a wake-up, unless the ring fills. */
static __always_inline void wake_engine_if_filling(const struct scherzo_control *page)
{
	if (READ_ONCE(page->parked) && bpf_ringbuf_query(&facts, BPF_RB_AVAIL_DATA) > SCHERZO_FACTS_RING_BYTES / 4)
		wake_engine();
}

/* Tells user space about a task that never needed it, so that its class stays fresh. Nobody is woken for it. */
static void refresh(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u64 now, u64 enq_flags)
{
	struct scherzo_facts *fact;

	if (kernel_seat() || tctx->slot == SCHERZO_NO_SLOT || time_delta(now, tctx->refreshed_ns) < (s64)(250 * NSEC_PER_MSEC))
		return;
	fact = reserve_facts();
	if (fact) {
		tctx->refreshed_ns = now;
		fill_facts(fact, SCHERZO_RECORD_REFRESH, p, tctx, page, now, enq_flags);
		bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
	}
	wake_engine_if_filling(page);
}

/* Tells user space that a slot is free. If there is no room it notices when the next owner has another pid. */
static void announce_exit(const struct scherzo_control *page, u32 slot, u32 pid)
{
	struct scherzo_facts *fact = reserve_facts();

	if (fact) {
		__builtin_memset(fact, 0, sizeof(*fact));
		fact->kind = SCHERZO_RECORD_EXIT;
		fact->slot = slot;
		fact->pid = pid;
		bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
	}
	wake_engine_if_filling(page);
}

static void send_notice(void)
{
	struct scherzo_facts *fact = bpf_ringbuf_reserve(&facts, sizeof(*fact), 0);

	if (!fact)
		return;
	__builtin_memset(fact, 0, sizeof(*fact));
	fact->kind = SCHERZO_RECORD_NOTICE;
	fact->slot = SCHERZO_NO_SLOT;
	bpf_ringbuf_submit(fact, BPF_RB_FORCE_WAKEUP);
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
		degraded_hold_ns = degraded_hold_ns * 2 > HOLD_MAX_NS ? HOLD_MAX_NS : degraded_hold_ns * 2;
	else
		degraded_hold_ns = HOLD_MIN_NS;
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
	if (time_delta(now, READ_ONCE(answered_at_ns)) < (s64)degraded_hold_ns)
		return;
	if (__sync_val_compare_and_swap(&degraded_seq, seq, seq + 1) != seq)
		return;
	WRITE_ONCE(page->degraded_seq, seq + 1);
	WRITE_ONCE(recovered_at_ns, now);
}

/* Age of the oldest entry among 64 slots. */
VERIFIED_ONCE u64 oldest_of_word(u32 index, u64 now)
{
	u64 *word = bpf_map_lookup_elem(&custody_bits, &index);
	u64 bits = word ? READ_ONCE(*word) : 0;
	s64 oldest = 0;
	u32 bit;

	bpf_for(bit, 0, 64) {
		struct custody *custody;
		s64 age;

		if (!bits)
			break;
		custody = slot_custody(index * 64 + ctzll(bits));
		bits &= bits - 1;
		/* Who takes a task back before its bit is set leaves the bit. */
		if (!custody || !(READ_ONCE(custody->word) & CUSTODY_OWNED))
			continue;
		age = time_delta(now, READ_ONCE(custody->handed_over_ns));
		if (age > oldest)
			oldest = age;
	}
	return oldest;
}

/* Age of the oldest entry, 0 if there is none. */
VERIFIED_ONCE u64 oldest_custody_ns(u64 now)
{
	u64 oldest = 0;
	u32 group, bit;

	bpf_for(group, 0, NR_CUSTODY_GROUPS) {
		u64 bits = READ_ONCE(custody_groups[group & (NR_CUSTODY_GROUPS - 1)]);

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
		insert(p, tctx, QUEUE_ID(QUEUE_FIFO, cpu_llc(cpu)), slice_ns, now, 0);
	else
		insert(p, tctx, QUEUE_ID(QUEUE_CPU, cpu), slice_ns, now, 0);
	if (is_pinned(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

VERIFIED_ONCE int sweep_slot(u32 index, u64 now)
{
	struct scherzo_control *page = control_page();
	struct custody *custody = slot_custody(index);
	struct task_struct *p;
	u64 word;

	if (!page || !custody)
		return 0;
	word = READ_ONCE(custody->word);
	if (!(word & CUSTODY_OWNED) || !take_back(page, custody, index, word >> 1))
		return 0;
	p = bpf_task_from_pid(custody->pid);
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
	u64 *word = bpf_map_lookup_elem(&custody_bits, &index);
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
VERIFIED_ONCE int sweep_custody(u64 now)
{
	u32 group, bit;

	bpf_for(group, 0, NR_CUSTODY_GROUPS) {
		u64 bits = READ_ONCE(custody_groups[group & (NR_CUSTODY_GROUPS - 1)]);

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

#endif /* SCHERZO_CUSTODY_BPF_H */
