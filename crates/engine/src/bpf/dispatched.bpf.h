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

/*
 * The turn that user space has decided, checked. False if it makes no sense: BPF then decides by itself. A task that
 * has run since its record was written, on the CPU that took it back, has moved on in virtual time.
 */
static __always_inline bool turn_of(const struct scherzo_dispatched_task *dispatched, u32 pid, const struct task_ctx *tctx,
				    u64 now, struct policy_turn *turn)
{
	u32 flags = READ_ONCE(dispatched->flags);
	s64 ahead;

	turn->vtime = READ_ONCE(dispatched->deadline_ns);
	turn->slice_ns = READ_ONCE(dispatched->slice_ns);
	turn->first = (flags & SCHERZO_DISPATCHED_CLASS_MASK) == SCHERZO_CLASS_INTERACTIVE;
	turn->timed = !!(flags & SCHERZO_DISPATCHED_TIMED);
	ahead = signed_delta(turn->vtime, turn->first ? now : tctx->vruntime);
	if (!turn->first && ahead < 0)
		turn->vtime = tctx->vruntime;
	return dispatched->pid == pid && turn->slice_ns && turn->slice_ns <= SLICE_MAX_NS && ahead < (s64)DEADLINE_REACH_NS &&
	       ahead > -(s64)DEADLINE_REACH_NS;
}

/*
 * Queues a task by the turn that user space has decided, and wakes a CPU for it or takes one. While it was in flight no
 * CPU could compare it with the task that it picked, so it takes one from a task that is clearly ahead, as if it had
 * been woken: CPUs whose ticks come at the same time would otherwise never see each other's tasks.
 */
static __always_inline void queue_dispatched(struct task_struct *p, const struct task_ctx *tctx,
					     const struct scherzo_dispatched_task *dispatched, struct control_word word,
					     u64 now)
{
	struct policy_turn turn;
	bool makes_sense = turn_of(dispatched, p->pid, tctx, now, &turn);
	u32 klass;

	if (!makes_sense)
		count(SCHERZO_CNT_FAILED);
	klass = queue_by_policy(p, word_bits(word), 0, makes_sense ? &turn : NULL);
	if (klass == SCHERZO_CLASS_KERNEL || !kick_idle_for(p, word_bits(word), klass))
		preempt_for_queued(p, tctx, word, true, !word.full_user);
}

/* The same for a policy for study. */
static __always_inline void queue_dispatched_for_study(struct task_struct *p, const struct scherzo_dispatched_task *dispatched,
						       const struct scherzo_control *page, struct control_word word, u64 now)
{
	struct queue_request request = checked_request(dispatched, p->pid, page, now);
	u32 klass = queue_for_study(p, QUEUE_DISPATCHED, word_bits(word), 0, &request);

	kick_queued(p, word, klass,
		    klass == SCHERZO_CLASS_INTERACTIVE && READ_ONCE(dispatched->flags) & SCHERZO_DISPATCHED_PREEMPT);
}

VERIFIED_ONCE int apply_dispatched(const struct scherzo_dispatched_task *dispatched)
{
	/* Once: user space can write to it all the time. */
	u32 index = dispatched ? READ_ONCE(dispatched->slot) : SCHERZO_NO_SLOT;
	struct flight *flight = slot_flight(index);
	struct scherzo_control *page = control_page();
	u64 now = clock_now();
	struct control_word word;
	struct task_ctx *tctx;
	struct task_struct *p;

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
	word = control_word(page);
	tctx = task_ctx(p);
	if (!tctx)
		insert_by_arrival(p, SCX_DSQ_GLOBAL, default_slice_ns(page), 0);
	else if (study_policy)
		queue_dispatched_for_study(p, dispatched, page, word, now);
	else
		queue_dispatched(p, tctx, dispatched, word, now);
	if (tctx)
		tctx->woken = false;
	count(SCHERZO_CNT_USER);
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
