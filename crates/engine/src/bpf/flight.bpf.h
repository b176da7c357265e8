/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flight.bpf.h: tasks in flight, which user space owns.
 *
 * Problem. A task that was handed to user space sits in no DSQ of the kernel's: if user space never dispatches it,
 * nothing else would ever run it.
 *
 * Approach. Every hand-over leaves a trace that user space cannot reach: a generation with an ownership bit, set before
 * the record is visible and cleared by compare-and-swap when the task is taken back: by the dispatch that repeats the
 * generation, by the kernel when it dequeues the task, by the CPU that it left or one without work, or by the sweep. A CPU that
 * loses the swap does nothing. So a task is dispatched once, whatever user space does, and a late dispatch is dropped.
 */
#ifndef SCHERZO_FLIGHT_BPF_H
#define SCHERZO_FLIGHT_BPF_H

#include "count.bpf.h"
#include "records.bpf.h"
#include "seat.bpf.h"

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
		/* Before the CPU that cleared it looks at the owner again. */
		before = __sync_fetch_and_and(word, ~bit);
		barrier_var(before);
	}
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
 * User space has not read the task's last record yet. It says that it has before it dispatches: a CPU that gives a task away and
 * then finds the record unread will have it dispatched.
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
	u64 now = clock_now();
	u32 index = tctx->slot;
	struct flight *flight = slot_flight(index);
	bool preempted = tctx->started_ns && !(enq_flags & SCX_ENQ_WAKEUP);
	struct scherzo_queued_task *record;
	struct policy_account account = {};
	u64 record_at, due_ns;
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
	if (!study_policy)
		take_account(p, tctx, queue_llc(p, tctx, control_word(page)), &account);
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
	record->account = account;
	WRITE_ONCE(page->nr_running, record->nr_running);
	/*
	 * The first submissions in a quiet machine, or interactive work, wait for the answer now. A preempted task waits for
	 * the CPU that it left: by the time that has nothing else to run, the answer is there or not needed.
	 */
	urgent = klass == SCHERZO_CLASS_INTERACTIVE ||
		 (!preempted && record->nr_waiting < page->nr_online_cpus / 2);

	begin_flight(p, tctx, page, flight, klass, preempted, now);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	if (!study_policy)
		due_ns = now + SHARE_BATCHING_NS;
	else
		due_ns = now + (preempted ? PREEMPTED_BATCHING_NS : BATCHING_NS);
	announce_record(page, due_ns, urgent);
	wake_engine_for_backlog(page, now, false);
	return true;
}

#endif /* SCHERZO_FLIGHT_BPF_H */
