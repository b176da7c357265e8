/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * custody.bpf.h: tasks that user space holds.
 *
 * Problem. A task that was handed to user space sits in no queue of the kernel's: if its decision never comes, nobody
 * else would ever run it.
 *
 * Approach. Every hand-over leaves a trace in the task's slot: a generation with an ownership bit, set before the record
 * is visible and cleared by compare-and-swap by whoever takes the task back: the decision that repeats the generation,
 * the kernel when it dequeues the task, or the sweep. Whoever loses the swap does nothing. So a task is dispatched once,
 * whatever user space does, and a late decision is dropped.
 *
 * When the oldest entry gets older than the limit (the warden looks while there are entries), BPF degrades: new work
 * goes to queues ordered by arrival, and dispatches sweep the entries into the same queues. User space is trusted again
 * when it has answered the notice and a hold time has passed, which doubles while it keeps failing.
 */
#ifndef SCHERZO_CUSTODY_BPF_H
#define SCHERZO_CUSTODY_BPF_H

#define WARDEN_PERIOD_NS (50 * NSEC_PER_MSEC)
/* Records that a parked engine may find together when it is not urgent. */
#define BATCHING_NS (1 * NSEC_PER_MSEC)
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

static __always_inline void mark_custody(u32 slot, bool owned)
{
	u32 index = slot / 64;
	u64 *word = bpf_map_lookup_elem(&custody_bits, &index);
	u64 bit = 1ULL << (slot & 63);

	if (!word)
		return;
	if (owned)
		__sync_fetch_and_or(word, bit);
	else
		__sync_fetch_and_and(word, ~bit);
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

	WRITE_ONCE(unread_since_ns, 0);
	if (bell)
		bpf_ringbuf_discard(bell, BPF_RB_FORCE_WAKEUP);
	count(SCHERZO_CNT_WAKE_ENGINE);
}

/* Wakes a parked engine for records that have waited long enough, or at once if somebody has nothing else to run. */
static __always_inline void wake_engine_for_backlog(const struct scherzo_control *page, u64 now, bool urgent)
{
	u64 since = READ_ONCE(unread_since_ns);

	if (!since || !READ_ONCE(page->parked))
		return;
	if (urgent || time_delta(now, since) >= (s64)BATCHING_NS)
		wake_engine();
}

static __always_inline void fill_facts(struct scherzo_facts *fact, u32 kind, const struct task_struct *p,
				       struct task_ctx *tctx, const struct scherzo_control *page, u64 now,
				       u64 enq_flags)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 nr_idle = bpf_cpumask_weight(idle);
	u32 nr_online = page->nr_online_cpus;
	u32 llc = cpu_llc(tctx->last_cpu);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;
	s64 nr_custody = READ_ONCE(page->nr_custody);
	s32 nr_queued;

	scx_bpf_put_idle_cpumask(idle);
	nr_queued = scx_bpf_dsq_nr_queued(QUEUE_ID(QUEUE_INTERACTIVE, llc)) +
		    scx_bpf_dsq_nr_queued(QUEUE_ID(QUEUE_BATCH, llc)) + scx_bpf_dsq_nr_queued(QUEUE_ID(QUEUE_FIFO, llc));

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
	fact->cpu = tctx->last_cpu;
	fact->nr_cpus_allowed = p->nr_cpus_allowed;
	fact->flags = (wakeup ? SCHERZO_FACT_WAKEUP : 0) | (is_pinned(p) ? SCHERZO_FACT_PINNED : 0) |
		      (is_kthread(p) ? SCHERZO_FACT_KTHREAD : 0);
	fact->nr_running = nr_online > nr_idle ? nr_online - nr_idle : 0;
	fact->nr_waiting = (nr_custody > 0 ? nr_custody : 0) + nr_queued * nr_llcs;
	fact->waker_pid = wakeup ? tctx->waker_pid : 0;
	fact->llc = llc;
	fact->cgroup_id = 0;
}

/*
 * Hands a task to user space. False if there is no slot or no room: the caller queues it.
 */
static bool hand_over(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u32 klass,
		      u64 enq_flags)
{
	u64 now = scx_bpf_now();
	struct scherzo_slot *slot = task_slot(tctx);
	struct scherzo_facts *fact;
	u32 index = tctx->slot;
	u32 *owner = bpf_map_lookup_elem(&slot_owners, &index);
	bool urgent;

	if (!slot || !owner) {
		count(SCHERZO_CNT_OVERFLOW);
		return false;
	}
	fact = bpf_ringbuf_reserve(&facts, sizeof(*fact), 0);
	if (!fact) {
		count(SCHERZO_CNT_CONGESTED);
		return false;
	}

	tctx->generation++;
	tctx->in_custody = true;
	tctx->refreshed_ns = now;
	*owner = p->pid;
	WRITE_ONCE(slot->pid, p->pid);
	WRITE_ONCE(slot->handed_over_ns, now);
	fill_facts(fact, SCHERZO_RECORD_ENQUEUE, p, tctx, page, now, enq_flags);
	WRITE_ONCE(page->nr_running, fact->nr_running);
	/* The first hand-over in a quiet machine, or interactive work, is waiting for the answer now. */
	urgent = klass == SCHERZO_CLASS_INTERACTIVE || fact->nr_waiting < page->nr_online_cpus;

	__sync_lock_test_and_set(&slot->custody, tctx->generation << 1 | SCHERZO_CUSTODY_OWNED);
	mark_custody(index, true);
	__sync_fetch_and_add(&page->nr_custody, 1);
	if (!READ_ONCE(unread_since_ns))
		WRITE_ONCE(unread_since_ns, now);
	bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);

	count(SCHERZO_CNT_HANDED);
	if (klass != SCHERZO_CLASS_INTERACTIVE)
		count(SCHERZO_CNT_HANDED_BATCH);
	/* Pairs with the engine, which says that it parks and then looks at the ring once more. */
	wake_engine_for_backlog(page, now, urgent);
	arm_warden();
	return true;
}

/* Tells user space about a task that never needed it, so that its class stays fresh. Nobody is woken for it. */
static void refresh(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u64 now, u64 enq_flags)
{
	struct scherzo_slot *slot = task_slot(tctx);
	struct scherzo_facts *fact;

	if (!slot || time_delta(now, tctx->refreshed_ns) < (s64)(250 * NSEC_PER_MSEC))
		return;
	fact = bpf_ringbuf_reserve(&facts, sizeof(*fact), 0);
	if (!fact)
		return;
	tctx->refreshed_ns = now;
	fill_facts(fact, SCHERZO_RECORD_REFRESH, p, tctx, page, now, enq_flags | SCX_ENQ_WAKEUP);
	bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
	if (READ_ONCE(page->parked) && bpf_ringbuf_query(&facts, BPF_RB_AVAIL_DATA) > SCHERZO_FACTS_RING_BYTES / 4)
		wake_engine();
}

/* Takes a task back from user space. True if this caller did; the generation must still be the one handed over. */
static __always_inline bool take_back(struct scherzo_control *page, struct scherzo_slot *slot, u32 index,
				      u64 generation)
{
	u64 owned = generation << 1 | SCHERZO_CUSTODY_OWNED;

	if (__sync_val_compare_and_swap(&slot->custody, owned, generation << 1) != owned)
		return false;
	mark_custody(index, false);
	__sync_fetch_and_add(&page->nr_custody, -1);
	return true;
}

/* The kernel took the task out of our hands: dequeued, exiting, or simply running. */
static __always_inline void leave_custody(struct task_ctx *tctx, struct scherzo_control *page)
{
	struct scherzo_slot *slot;

	if (!tctx->in_custody)
		return;
	tctx->in_custody = false;
	slot = task_slot(tctx);
	if (slot && take_back(page, slot, tctx->slot, tctx->generation))
		count(SCHERZO_CNT_LEFT);
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
	u64 seq = READ_ONCE(page->degraded_seq);

	if (seq & 1 || __sync_val_compare_and_swap(&page->degraded_seq, seq, seq + 1) != seq)
		return;
	if (recovered_at_ns && time_delta(now, recovered_at_ns) < (s64)RELAPSE_NS)
		degraded_hold_ns = degraded_hold_ns * 2 > HOLD_MAX_NS ? HOLD_MAX_NS : degraded_hold_ns * 2;
	else
		degraded_hold_ns = HOLD_MIN_NS;
	WRITE_ONCE(page->degraded_since_ns, now);
	send_notice();
	/* Sweeping needs dispatches, also on CPUs that sleep or that one task keeps. */
	kick_all(0);
}

/* Back to user space once it has answered this very notice and the hold has passed. */
static __always_inline void try_recover(struct scherzo_control *page, u64 now)
{
	u64 seq = READ_ONCE(page->degraded_seq);

	if (!(seq & 1) || READ_ONCE(page->recovered_seq) != seq)
		return;
	if (time_delta(now, READ_ONCE(page->degraded_since_ns)) < (s64)degraded_hold_ns)
		return;
	if (__sync_val_compare_and_swap(&page->degraded_seq, seq, seq + 1) == seq)
		WRITE_ONCE(recovered_at_ns, now);
}

/* Age of the oldest entry, 0 if there is none. */
VERIFIED_ONCE u64 oldest_custody_ns(u64 now)
{
	s64 oldest = 0;
	u32 index, bit;

	bpf_for(index, 0, NR_CUSTODY_WORDS) {
		u64 *word = bpf_map_lookup_elem(&custody_bits, &index);
		u64 bits = word ? READ_ONCE(*word) : 0;

		bpf_for(bit, 0, 64) {
			struct scherzo_slot *slot;
			u32 slot_index;
			s64 age;

			if (!bits)
				break;
			slot_index = index * 64 + ctzll(bits);
			bits &= bits - 1;
			slot = bpf_map_lookup_elem(&slots, &slot_index);
			age = slot ? time_delta(now, READ_ONCE(slot->handed_over_ns)) : 0;
			if (age > oldest)
				oldest = age;
		}
	}
	return oldest;
}

/* Puts a task that was taken back where the next dispatch finds it, in arrival order. */
static void queue_swept(struct task_struct *p, struct task_ctx *tctx, const struct scherzo_control *page, u64 now)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 slice_ns = default_slice_ns(page);

	tctx->in_custody = false;
	count(SCHERZO_CNT_SWEPT);
	if (!is_pinned(p))
		scx_bpf_dsq_insert(p, QUEUE_ID(QUEUE_FIFO, cpu_llc(cpu)), slice_ns, 0);
	else if (cpuc && cpuc->online)
		scx_bpf_dsq_insert_vtime(p, QUEUE_ID(QUEUE_CPU, cpu), slice_ns, now, 0);
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, 0);
	if (is_pinned(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

VERIFIED_ONCE int sweep_slot(u32 index, u64 now)
{
	struct scherzo_control *page = control_page();
	struct scherzo_slot *slot = bpf_map_lookup_elem(&slots, &index);
	u32 *owner = bpf_map_lookup_elem(&slot_owners, &index);
	struct task_ctx *tctx;
	struct task_struct *p;
	u64 custody;

	if (!page || !slot || !owner)
		return 0;
	custody = READ_ONCE(slot->custody);
	if (!(custody & SCHERZO_CUSTODY_OWNED) || !take_back(page, slot, index, custody >> 1))
		return 0;
	p = bpf_task_from_pid(*owner);
	if (!p)
		return 0;
	tctx = task_ctx(p);
	if (tctx && tctx->slot == index)
		queue_swept(p, tctx, page, now);
	bpf_task_release(p);
	return 0;
}

/* From ops.dispatch while degraded: takes back as many entries as there are dispatch slots. */
VERIFIED_ONCE int sweep_custody(u64 now)
{
	u32 index, bit;

	bpf_for(index, 0, NR_CUSTODY_WORDS) {
		u64 *word = bpf_map_lookup_elem(&custody_bits, &index);
		u64 bits = word ? READ_ONCE(*word) : 0;

		bpf_for(bit, 0, 64) {
			u32 slot_index;

			if (!bits)
				break;
			if (!scx_bpf_dispatch_nr_slots())
				return 0;
			slot_index = index * 64 + ctzll(bits);
			bits &= bits - 1;
			sweep_slot(slot_index, now);
		}
	}
	return 0;
}

#endif /* SCHERZO_CUSTODY_BPF_H */
