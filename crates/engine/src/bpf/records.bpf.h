/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * records.bpf.h: what user space is told of tasks, and when the engine is woken for it.
 */
#ifndef SCHERZO_RECORDS_BPF_H
#define SCHERZO_RECORDS_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "kind.bpf.h"
#include "state.bpf.h"

/*
 * How long a record may wait for a parked engine, which then finds many together: while a task waits for the answer; while
 * it was preempted, and will most likely go on without; and when no task waits.
 */
#define BATCHING_NS (8 * NSEC_PER_MSEC)
#define PREEMPTED_BATCHING_NS (16 * NSEC_PER_MSEC)
#define NEWS_NS (40 * NSEC_PER_MSEC)
/* The same where shares are divided: until it is answered no CPU can compare the task with others, and those that run go on. */
#define SHARE_BATCHING_NS (2 * NSEC_PER_MSEC)
/* Some forty records: read and answered in tens of microseconds. */
#define RING_NEARLY_EMPTY_BYTES 4096
/* Room that only wake-ups and notices may use, so that a parked engine can always be woken. */
#define RING_RESERVE_BYTES 4096

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

/* Room for a record that no task depends on for waking up. */
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

static __always_inline void fill_record(struct scherzo_queued_task *record, u32 kind, struct task_struct *p,
				       struct task_ctx *tctx, const struct scherzo_control *page, u64 now,
				       u64 enq_flags)
{
	s64 nr_busy = page->nr_online_cpus - READ_ONCE(nr_idle);
	s32 cpu = scx_bpf_task_cpu(p);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;
	s64 nr_flights = READ_ONCE(nr_in_flight);
	const struct llc_ctx *llcx = llc_ctx(cpu_llc(cpu));
	s32 nr_queued = 0;

	if (llcx)
		nr_queued = llcx->nr_interactive + llcx->nr_batch + llcx->nr_fifo;

	record->kind = kind;
	record->slot = tctx->slot;
	record->generation = tctx->generation;
	record->pid = p->pid;
	record->now_ns = now;
	record->sum_exec_ns = tctx->sum_exec_ns;
	record->burst_ns = wakeup ? tctx->last_burst_ns : tctx->burst_ns;
	record->nr_voluntary_switches = p->nvcsw;
	record->weight = weight_without_groups(p);
	record->cpu = cpu;
	record->flags = (wakeup ? SCHERZO_QUEUED_WAKEUP : 0) | (is_pinned(p) ? SCHERZO_QUEUED_PINNED : 0);
	record->nr_running = nr_busy > 0 ? nr_busy : 0;
	record->nr_waiting = (nr_flights > 0 ? nr_flights : 0) + (nr_queued > 0 ? nr_queued : 0) * nr_llcs;
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

/* A record that may wait is not worth a wake-up, unless the ring fills. */
static __always_inline void wake_engine_if_filling(const struct scherzo_control *page)
{
	if (READ_ONCE(page->parked) && bpf_ringbuf_query(&queued_tasks, BPF_RB_AVAIL_DATA) > SCHERZO_QUEUED_RING_BYTES / 4)
		wake_engine();
}

/*
 * Tells a policy for study about a task that never needed it, so that its class stays fresh. The engine is not woken for it.
 */
static void refresh(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page, u64 now, u64 enq_flags)
{
	struct scherzo_queued_task *record;

	if (!study_policy || tctx->slot == SCHERZO_NO_SLOT || time_delta(now, tctx->refreshed_ns) < (s64)(250 * NSEC_PER_MSEC))
		return;
	record = reserve_record();
	if (record) {
		tctx->refreshed_ns = now;
		fill_record(record, SCHERZO_RECORD_REFRESH, p, tctx, page, now, enq_flags);
		record->account = (struct policy_account){};
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

#endif /* SCHERZO_RECORDS_BPF_H */
