/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dispatched.bpf.h: tasks that user space has dispatched come down and enter their DSQs.
 */
#ifndef SCHERZO_DISPATCHED_BPF_H
#define SCHERZO_DISPATCHED_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "flight.bpf.h"
#include "kind.bpf.h"
#include "queue.bpf.h"

/* What user space asks for a task, checked: whatever made no sense is replaced by what BPF would do alone. */
static __always_inline struct queue_request
checked_request(const struct scherzo_dispatched_task *dispatched, u32 pid, const struct scherzo_control *page, u64 now)
{
	u32 flags = dispatched->flags;
	u32 klass = flags & SCHERZO_DISPATCHED_CLASS_MASK;
	s64 ahead = signed_delta(dispatched->deadline_ns, now);
	u64 slice_ns = dispatched->slice_ns;
	struct queue_request request = {
		.slice_ns = slice_ns,
		.deadline_ns = dispatched->deadline_ns,
		.klass = klass,
		.cpu = dispatched->cpu,
		.fifo = !!(flags & SCHERZO_DISPATCHED_FIFO),
	};

	if (dispatched->pid == pid && slice_ns && slice_ns <= SLICE_MAX_NS &&
	    (klass == SCHERZO_CLASS_INTERACTIVE || klass == SCHERZO_CLASS_BATCH) && ahead < (s64)DEADLINE_REACH_NS &&
	    ahead > -(s64)DEADLINE_REACH_NS)
		return request;

	count(SCHERZO_CNT_FAILED);
	request.slice_ns = default_slice_ns(page);
	request.deadline_ns = now;
	request.klass = SCHERZO_CLASS_BATCH;
	request.cpu = SCHERZO_CPU_ANY;
	return request;
}

VERIFIED_ONCE int apply_dispatched(const struct scherzo_dispatched_task *dispatched)
{
	/* Once: user space can write to it all the time. */
	u32 index = dispatched ? READ_ONCE(dispatched->slot) : SCHERZO_NO_SLOT;
	struct flight *flight = slot_flight(index);
	struct scherzo_control *page = control_page();
	u64 now = scx_bpf_now();
	struct task_ctx *tctx;
	struct task_struct *p;
	struct queue_request request;
	struct control_word word;
	u32 klass;

	if (!page || !dispatched || !flight) {
		count(SCHERZO_CNT_FAILED);
		return 0;
	}
	if (!reclaim(page, flight, index, dispatched->generation)) {
		count(SCHERZO_CNT_CANCELLED);
		return 0;
	}
	p = bpf_task_from_pid(flight->pid);
	if (!p) {
		count(SCHERZO_CNT_LEFT);
		return 0;
	}
	request = checked_request(dispatched, p->pid, page, now);
	tctx = task_ctx(p);
	if (tctx)
		tctx->woken = false;
	word = control_word(page);
	klass = queue_task(p, QUEUE_DISPATCHED, word_bits(word), 0, &request);
	kick_queued(p, word, klass,
		    klass == SCHERZO_CLASS_INTERACTIVE && READ_ONCE(dispatched->flags) & SCHERZO_DISPATCHED_PREEMPT);
	bpf_task_release(p);
	return 0;
}

static long drain_one(struct bpf_dynptr *dynptr, void *context)
{
	const struct scherzo_dispatched_task *dispatched = bpf_dynptr_data(dynptr, 0, sizeof(*dispatched));

	/* The ring admits one drainer at a time. */
	WRITE_ONCE(nr_drained, nr_drained + 1);
	if (dispatched)
		apply_dispatched(dispatched);
	else
		count(SCHERZO_CNT_FAILED);
	/* Non-zero stops: keep two slots for what this dispatch itself may still insert. */
	return scx_bpf_dispatch_nr_slots() <= 2;
}

/* One CPU drains at a time; the others find -EBUSY, and go on with what is queued already. */
static __always_inline void drain_dispatched(const struct scherzo_control *page)
{
	if (READ_ONCE(page->nr_submitted) == READ_ONCE(nr_drained) || scx_bpf_dispatch_nr_slots() <= 2)
		return;
	bpf_user_ringbuf_drain(&dispatched_tasks, drain_one, NULL, BPF_RB_NO_WAKEUP);
}

#endif /* SCHERZO_DISPATCHED_BPF_H */
