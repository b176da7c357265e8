/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queue.bpf.h: a task is queued without asking user space: by the policy (seat.bpf.h); or where a policy for study
 * decides, by what that has said of the task.
 */
#ifndef SCHERZO_QUEUE_BPF_H
#define SCHERZO_QUEUE_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "dsq.bpf.h"
#include "kind.bpf.h"
#include "low_power.bpf.h"
#include "place.bpf.h"
#include "seat.bpf.h"

/* How far from now a deadline may lie. */
#define DEADLINE_REACH_NS (10000 * NSEC_PER_MSEC)

/* Why a task is queued; its deadline, its slice and what is counted follow from that. */
enum queue_reason {
	QUEUE_ALONE, /* user space is not asked: there is no slot, no room or no answer, or the thread must not wait for it */
	QUEUE_CLASSIFIED, /* the task was woken, and user space classified it a moment ago */
	QUEUE_AGAIN, /* it lost its CPU to a higher class or to the engine, with part of its slice left */
	QUEUE_RECLAIMED, /* the same, and the CPU that now takes it back from user space has no other work */
	QUEUE_SWEPT, /* taken back from user space, which does not answer */
	QUEUE_DISPATCHED, /* user space has dispatched it */
};

/* How a task is queued. */
struct queue_request {
	u64 slice_ns;
	u64 deadline_ns;
	u32 klass;
	u32 cpu; /* the only one that may have it, or SCHERZO_CPU_ANY */
	u64 fifo; /* arrival order: deadline_ns is ignored */
};

/* How long the classification of an interactive task may be acted on without asking again. */
#define CLASSIFICATION_LASTS_NS (250 * NSEC_PER_MSEC)

/*
 * The deadline of an interactive task that was woken now, as user space classified it a moment ago: the same distance
 * from its arrival to its deadline. False if there is no such classification.
 */
VERIFIED_ONCE int classified_deadline(const struct scherzo_slot *slot, u64 now, u64 *deadline_ns)
{
	u64 classified_ns;
	s64 ahead_ns;

	if (!slot || !deadline_ns || READ_ONCE(slot->klass) != SCHERZO_CLASS_INTERACTIVE)
		return false;
	classified_ns = READ_ONCE(slot->classified_ns);
	ahead_ns = signed_delta(READ_ONCE(slot->deadline_ns), classified_ns);
	if (time_delta(now, classified_ns) > (s64)CLASSIFICATION_LASTS_NS || ahead_ns > (s64)DEADLINE_REACH_NS ||
	    ahead_ns < -(s64)DEADLINE_REACH_NS)
		return false;
	*deadline_ns = now + ahead_ns;
	return true;
}

/* What is left of the slice of a task that stopped; the kernel sets its own number to 0 to take the CPU away. */
static __always_inline u64 slice_left_ns(const struct task_struct *p, const struct task_ctx *tctx)
{
	return p->scx.slice ?: tctx->slice_ns;
}

/* The request of a task that user space has not dispatched. False if it has no classification that could be acted on. */
static __always_inline bool request_for(struct task_struct *p, const struct task_ctx *tctx, const struct scherzo_control *page,
					struct control_word word, u32 reason, struct queue_request *request)
{
	const struct scherzo_slot *slot;
	u64 now = clock_now();

	*request = (struct queue_request){
		.slice_ns = default_slice_ns(page),
		.deadline_ns = now,
		.klass = reason == QUEUE_ALONE && is_kthread(p) ? SCHERZO_CLASS_INTERACTIVE : task_class(tctx),
		.cpu = SCHERZO_CPU_ANY,
		/* Degraded, all new work is queued by arrival. */
		.fifo = reason == QUEUE_SWEPT || effective_order(word) == SCHERZO_ORDER_FIFO,
	};
	if (reason == QUEUE_CLASSIFIED) {
		slot = task_slot(tctx);
		request->slice_ns = slot ? READ_ONCE(slot->slice_ns) : 0;
		return request->slice_ns && request->slice_ns <= SLICE_MAX_NS &&
		       classified_deadline(slot, now, &request->deadline_ns);
	}
	if (reason == QUEUE_AGAIN || reason == QUEUE_RECLAIMED) {
		request->slice_ns = slice_left_ns(p, tctx) ?: request->slice_ns;
		request->deadline_ns = published_deadline_ns(tctx, now);
	}
	return true;
}

/*
 * The only CPU that may have the task, or -1: it is pinned, user space chose it, or low-power has none awake for the
 * task.
 */
static __always_inline s32 only_cpu(struct task_struct *p, const struct queue_request *request, struct control_word word)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (is_pinned(p))
		return bpf_cpumask_first(p->cpus_ptr);
	if (request->cpu != SCHERZO_CPU_ANY) {
		if (request->cpu < nr_cpu_slots && may_run_on(p, request->cpu))
			return request->cpu;
		count(SCHERZO_CNT_BOUNCED);
	}
	if (!needs_sleeping_cpu(p, word, request->klass))
		return -1;
	return may_run_on(p, cpu) ? cpu : bpf_cpumask_first(p->cpus_ptr);
}

/* For one CPU only. An offline one gets no dispatch, so its DSQ would strand the task: it stays with its own. */
static __always_inline void insert_on_cpu(struct task_struct *p, struct task_ctx *tctx, const struct queue_request *request,
					  s32 cpu, u64 enq_flags)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && cpuc->online) {
		insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), request->slice_ns, request->deadline_ns, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else {
		insert_by_arrival(p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p), request->slice_ns, enq_flags);
		count(SCHERZO_CNT_OFFLINE);
	}
}

static __always_inline enum scherzo_counter queue_counter(u32 reason)
{
	switch (reason) {
	case QUEUE_CLASSIFIED:
		return SCHERZO_CNT_AS_CLASSIFIED;
	case QUEUE_AGAIN:
		return SCHERZO_CNT_REQUEUED;
	case QUEUE_RECLAIMED:
		return SCHERZO_CNT_RECLAIMED;
	case QUEUE_SWEPT:
		return SCHERZO_CNT_SWEPT;
	case QUEUE_DISPATCHED:
		return SCHERZO_CNT_USER;
	default:
		return SCHERZO_CNT_KERNEL;
	}
}

/*
 * Queues a task of a policy for study: in the DSQ of the only CPU that may have it, else in its LLC's of its order and
 * class. Returns what queue_task() does.
 */
VERIFIED_ONCE u32 queue_for_study(struct task_struct *p __arg_trusted, u32 reason, u64 bits, u64 enq_flags,
				  const struct queue_request *dispatched)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word = word_of(bits);
	struct queue_request request;
	u32 kind;
	s32 cpu;

	if (!page || !tctx) {
		insert_by_arrival(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return SCHERZO_CLASS_KERNEL;
	}
	if (dispatched)
		request = *dispatched;
	else if (!request_for(p, tctx, page, word, reason, &request))
		return SCHERZO_CLASS_UNKNOWN;

	cpu = only_cpu(p, &request, word);
	if (cpu >= 0) {
		insert_on_cpu(p, tctx, &request, cpu, enq_flags);
		return SCHERZO_CLASS_KERNEL;
	}
	kind = request.klass == SCHERZO_CLASS_INTERACTIVE ? DSQ_INTERACTIVE : DSQ_BATCH;
	/* Where arrival is the order, a task that keeps its place was the first. */
	if (request.fifo && (reason == QUEUE_AGAIN || reason == QUEUE_RECLAIMED))
		enq_flags |= SCX_ENQ_HEAD;
	insert(p, tctx, DSQ_ID(request.fifo ? DSQ_FIFO : kind, target_llc(p, word, request.klass)), request.slice_ns,
	       request.deadline_ns, enq_flags);
	return request.klass;
}

/*
 * Queues a task. `request` is what a policy for study asks for, checked; NULL for other reasons.
 *
 * Returns the class as which the task waits for any CPU of its LLC, SCHERZO_CLASS_KERNEL if no CPU need be woken for
 * it, and SCHERZO_CLASS_UNKNOWN if it was not queued: it has no classification that could be acted on. The caller wakes
 * a CPU (kick_queued()), as the kernel allows eight frames of calls, and both together would take more; and it arms the
 * watchdog timer.
 */
static __always_inline u32 queue_task(struct task_struct *p, u32 reason, struct control_word word, u64 enq_flags,
				      const struct queue_request *request)
{
	u32 klass;

	if (study_policy)
		klass = queue_for_study(p, reason, word_bits(word), enq_flags, request);
	else
		klass = queue_by_policy(p, word_bits(word), enq_flags, NULL);
	if (klass != SCHERZO_CLASS_UNKNOWN)
		count(queue_counter(reason));
	return klass;
}

/*
 * A per-CPU kernel thread whose CPU a higher class has taken: it waits in that CPU's own DSQ, before everything else
 * there, and runs when the CPU is free. Not in one of the policy's: what prompt tasks owe to others is nothing to
 * it.
 */
static __always_inline void queue_kthread_on_own_cpu(struct task_struct *p, struct task_ctx *tctx,
						     const struct scherzo_control *page, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), default_slice_ns(page), clock_now() - DEADLINE_REACH_NS, enq_flags);
	count(SCHERZO_CNT_REQUEUED);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * A task that is to move up (begins_to_move_up()) goes to the fast core that idles, with its place and the rest of its
 * slice. False if that has been taken meanwhile.
 */
VERIFIED_ONCE int move_up(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct control_word word = word_of(bits);
	struct task_ctx *tctx = task_ctx(p);
	u64 slice_ns, deadline_ns;
	s32 cpu;

	/* The kernel asks about tasks that may not leave their CPU for a moment, too. */
	if (!page || !tctx || may_not_migrate(p, enq_flags))
		return false;
	cpu = idle_cpu_of_kind(p, scx_bpf_task_cpu(p), false, word.whole_cores);
	if (cpu < 0 || !scx_bpf_test_and_clear_cpu_idle(cpu))
		return false;
	deadline_ns = published_deadline_ns(tctx, clock_now());
	slice_ns = slice_left_ns(p, tctx) ?: default_slice_ns(page);
	insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), slice_ns, deadline_ns, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

#endif /* SCHERZO_QUEUE_BPF_H */
