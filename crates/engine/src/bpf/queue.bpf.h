/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queue.bpf.h: a task is queued as user space has decided, or without asking it.
 */
#ifndef SCHERZO_QUEUE_BPF_H
#define SCHERZO_QUEUE_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "dsq.bpf.h"
#include "kind.bpf.h"
#include "low_power.bpf.h"
#include "place.bpf.h"

/* How far from now a deadline may lie. */
#define DEADLINE_REACH_NS (10000 * NSEC_PER_MSEC)

/* What user space asks for a task, checked: whatever made no sense is replaced by what BPF would do alone. */
struct dispatch_request {
	u64 slice_ns;
	u64 deadline_ns;
	u32 klass;
	u32 cpu;
	bool fifo;
	bool preempt;
};

/* To one CPU only. An offline one gets no dispatch, so its DSQ would strand the task: it stays with its own. */
static void insert_on_cpu(struct task_struct *p, struct task_ctx *tctx, const struct dispatch_request *request, s32 cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && cpuc->online) {
		insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), request->slice_ns, request->deadline_ns, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p), request->slice_ns, 0);
		count(SCHERZO_CNT_OFFLINE);
	}
}

/* Wakes a CPU for a task that was just queued: an idle CPU, else one taken from batch work if that was decided. */
static void kick_for(struct task_struct *p, const struct dispatch_request *request, struct control_word word)
{
	s32 cpu;

	if (kick_idle_for(p, word_bits(word), request->klass) || !request->preempt || !word.preemption)
		return;
	cpu = preempt_cpu(p, scx_bpf_task_cpu(p));
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		count(SCHERZO_CNT_PREEMPT);
	}
}

/*
 * Queues a task by itself, without asking user space: for threads that must not wait for it, and whenever there is no
 * slot, no room or no answer. In deadline order the deadline is the arrival. The caller arms the watchdog timer.
 */
VERIFIED_ONCE int queue_in_kernel(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word = word_of(bits);
	u64 now = scx_bpf_now();
	u64 slice_ns = page ? default_slice_ns(page) : SCX_SLICE_DFL;
	u32 klass = !tctx || is_kthread(p) ? SCHERZO_CLASS_INTERACTIVE : task_class(tctx);

	count(SCHERZO_CNT_KERNEL);
	if (!page || !tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		return 0;
	}
	queue_in_order(p, tctx, word, klass, effective_order(word) == SCHERZO_ORDER_FIFO, slice_ns, now, enq_flags);
	if (!is_pinned(p))
		kick_idle_for(p, bits, klass);
	return 0;
}

/*
 * A per-CPU kernel thread whose CPU a higher class has taken: it waits in that CPU's own DSQ, before everything else there,
 * and runs when the CPU is free. Not in one of the kernel seat's: what prompt tasks owe to others is nothing to it.
 */
static __always_inline void queue_kthread_on_own_cpu(struct task_struct *p, struct task_ctx *tctx,
						     const struct scherzo_control *page, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), default_slice_ns(page), scx_bpf_now() - DEADLINE_REACH_NS, enq_flags);
	count(SCHERZO_CNT_REQUEUED);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* How long the classification of an interactive task may be acted on without asking again. */
#define CLASSIFICATION_LASTS_NS (250 * NSEC_PER_MSEC)

/*
 * The deadline of an interactive task that was woken now, as user space classified it a moment ago: the same distance from its
 * arrival to its deadline. False if there is no such classification.
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

/* Queues an interactive task that was woken by that deadline. False if it has none. */
VERIFIED_ONCE int queue_as_classified(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);
	const struct scherzo_slot *slot = tctx ? task_slot(tctx) : NULL;
	struct control_word word = word_of(bits);
	u64 slice_ns, deadline_ns = 0;

	if (!slot || !classified_deadline(slot, scx_bpf_now(), &deadline_ns))
		return false;
	slice_ns = READ_ONCE(slot->slice_ns);
	if (!slice_ns || slice_ns > SLICE_MAX_NS)
		return false;

	count(SCHERZO_CNT_AS_CLASSIFIED);
	queue_in_order(p, tctx, word, SCHERZO_CLASS_INTERACTIVE, word.order == SCHERZO_ORDER_FIFO, slice_ns, deadline_ns,
		       enq_flags);
	if (!is_pinned(p))
		kick_idle_for(p, bits, SCHERZO_CLASS_INTERACTIVE);
	return true;
}

/* What is left of the slice of a task that stopped; the kernel sets its own number to 0 to take the CPU away. */
static __always_inline u64 slice_left_ns(const struct task_struct *p, const struct task_ctx *tctx)
{
	return p->scx.slice ?: tctx->slice_ns;
}

/*
 * A task that had started its slice lost its CPU to a higher class or to the engine. It keeps its place (its deadline) and the
 * rest of its slice, without asking user space again, and any CPU may have it meanwhile.
 */
VERIFIED_ONCE int take_place_again(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word = word_of(bits);
	u64 slice_ns;
	bool fifo;

	if (!page || !tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return 0;
	}
	slice_ns = slice_left_ns(p, tctx) ?: default_slice_ns(page);
	fifo = effective_order(word) == SCHERZO_ORDER_FIFO;
	if (fifo && !is_pinned(p))
		enq_flags |= SCX_ENQ_HEAD;
	queue_in_order(p, tctx, word, task_class(tctx), fifo, slice_ns, published_deadline_ns(tctx, scx_bpf_now()),
		       enq_flags);
	return 0;
}

/*
 * A task that is to move up (begins_to_move_up()) goes to the fast core that idles, with its place and the rest of its slice.
 * False if that has been taken meanwhile.
 */
VERIFIED_ONCE int move_up(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct control_word word = word_of(bits);
	struct task_ctx *tctx = task_ctx(p);
	u64 slice_ns, deadline_ns;
	s32 cpu;

	/* The kernel asks about tasks that may not leave their CPU for a moment, too. */
	if (!page || !tctx || may_not_migrate(p))
		return false;
	cpu = idle_cpu_of_kind(p, scx_bpf_task_cpu(p), false, word.whole_cores);
	if (cpu < 0 || !scx_bpf_test_and_clear_cpu_idle(cpu))
		return false;
	deadline_ns = published_deadline_ns(tctx, scx_bpf_now());
	slice_ns = slice_left_ns(p, tctx) ?: default_slice_ns(page);
	insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), slice_ns, deadline_ns, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

static void requeue(struct task_struct *p, struct task_ctx *tctx, struct control_word word, u64 enq_flags)
{
	u32 klass = task_class(tctx);
	s32 cpu;

	count(SCHERZO_CNT_REQUEUED);
	take_place_again(p, word_bits(word), enq_flags);
	if (is_pinned(p) || kick_idle_for(p, word_bits(word), klass) || klass != SCHERZO_CLASS_INTERACTIVE || !word.preemption)
		return;
	cpu = preempt_cpu(p, scx_bpf_task_cpu(p));
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static void carry_out(struct task_struct *p, struct task_ctx *tctx, const struct dispatch_request *request,
		      struct control_word word)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (is_pinned(p)) {
		insert_on_cpu(p, tctx, request, bpf_cpumask_first(p->cpus_ptr));
		return;
	}
	if (request->cpu != SCHERZO_CPU_ANY) {
		if (request->cpu < nr_cpu_slots && may_run_on(p, request->cpu)) {
			insert_on_cpu(p, tctx, request, request->cpu);
			return;
		}
		count(SCHERZO_CNT_BOUNCED);
	}
	if (word.mode == SCHERZO_MODE_LOW_POWER && request->klass == SCHERZO_CLASS_BATCH &&
	    low_power_cpu(p, LOW_POWER_QUEUE) < 0) {
		/* None of the CPUs that stay awake will do: wake its own. */
		insert_on_cpu(p, tctx, request, may_run_on(p, cpu) ? cpu : bpf_cpumask_first(p->cpus_ptr));
		return;
	}

	queue_in_order(p, tctx, word, request->klass, request->fifo, request->slice_ns, request->deadline_ns, 0);
	kick_for(p, request, word);
}

/* Puts a task that was taken back where the next dispatch finds it, in arrival order. */
static void queue_swept(struct task_struct *p, const struct scherzo_control *page, u64 now)
{
	struct task_ctx *tctx = task_ctx(p);
	u64 slice_ns = default_slice_ns(page);

	count(SCHERZO_CNT_SWEPT);
	if (!tctx)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, 0);
	else
		queue_in_order(p, tctx, control_word(page), SCHERZO_CLASS_INTERACTIVE, true, slice_ns, now, 0);
}

#endif /* SCHERZO_QUEUE_BPF_H */
