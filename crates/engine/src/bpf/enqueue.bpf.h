/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * enqueue.bpf.h: a task must wait for a CPU (ops.enqueue), or need not any more (ops.dequeue).
 *
 * The kernel calls both with the run queue of the task's CPU locked, so no other callback for this task runs meanwhile.
 * CPUs that dispatch do: from the moment a task is in a DSQ or in flight, another CPU may run it.
 */
#ifndef SCHERZO_ENQUEUE_BPF_H
#define SCHERZO_ENQUEUE_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "engine_thread.bpf.h"
#include "kind.bpf.h"
#include "park.bpf.h"
#include "queue.bpf.h"
#include "watchdog.bpf.h"

/*
 * The task was moved while it waited. The watchdog leaves the time out of account for which a higher class had the
 * task's CPU: that is the new CPU's from here on.
 */
static __always_inline void follow_wait(struct task_struct *p, struct task_ctx *tctx)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (tctx->wait_cpu == cpu || !cpuc)
		return;
	tctx->wait_cpu = cpu;
	tctx->wait_higher_class_ns = cpu_higher_class_ns(cpuc, clock_now());
}

/*
 * The kernel does not call ops.select_cpu for a task that may run on one CPU only: the same choices are made here, for
 * that CPU.
 */
static bool run_pinned_at_once(struct task_struct *p, const struct scherzo_control *page, struct control_word word,
			       u32 klass, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc || !(enq_flags & SCX_ENQ_WAKEUP))
		return false;
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		run_at_once(p, page, enq_flags, SCHERZO_CNT_DIRECT);
		return true;
	}
	if (word.preemption && klass == SCHERZO_CLASS_INTERACTIVE && try_preempt(cpuc)) {
		run_at_once(p, page, enq_flags | SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
		return true;
	}
	return false;
}

/*
 * The task was interrupted for the engine or for a shorter task, or to move up, with part of its slice left. The engine
 * is not asked about it: each of the engine's runs interrupts a task, and would cause the next run.
 */
static __always_inline bool gave_way(struct task_struct *p, const struct task_ctx *tctx, u64 enq_flags)
{
	struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));

	return cpuc && (READ_ONCE(cpuc->makes_room) || (cores_differ && tctx->moves_up)) &&
	       !(enq_flags & SCX_ENQ_WAKEUP) && tctx->slice_ns;
}

/*
 * Queues the task without asking user space, and wakes a CPU. False if it has no classification that could be acted on.
 */
static __always_inline bool queue_alone(struct task_struct *p, struct control_word word, u32 reason, u64 enq_flags)
{
	u32 klass = queue_task(p, reason, word, enq_flags, NULL);

	if (klass == SCHERZO_CLASS_UNKNOWN)
		return false;
	kick_queued(p, word, klass, reason == QUEUE_AGAIN && klass == SCHERZO_CLASS_INTERACTIVE);
	return true;
}

/*
 * User space is to decide about the task. Not about one that goes first: BPF knows all that the decision depends on,
 * and the task would wait for an answer that is known.
 */
static __always_inline bool is_for_user_space(struct task_struct *p, const struct task_ctx *tctx, struct control_word word,
					      u64 enq_flags)
{
	return !word.kernel_seat && !is_degraded() && (!tctx->prompt || word.full_user) && !frees_memory(p) &&
	       !(enq_flags & SCX_ENQ_REENQ) && !gave_way(p, tctx, enq_flags);
}

/* By the policy: user space decides the turn, or BPF does. */
static __always_inline void enqueue_by_policy(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page,
					      struct control_word word, u64 enq_flags)
{
	bool woken = enq_flags & SCX_ENQ_WAKEUP;
	u32 klass = task_class(tctx);

	if (is_pinned(p) && !word.full_user && run_pinned_at_once(p, page, word, klass, enq_flags))
		return;
	if (klass != SCHERZO_CLASS_INTERACTIVE)
		count_here(SCHERZO_CNT_CONTENDED_BATCH);
	if (is_for_user_space(p, tctx, word, enq_flags) && submit(p, tctx, page, klass, enq_flags))
		return;
	klass = queue_task(p, enq_flags & SCX_ENQ_REENQ ? QUEUE_AGAIN : QUEUE_ALONE, word, enq_flags, NULL);
	if (klass != SCHERZO_CLASS_KERNEL)
		kick_idle_for(p, word_bits(word), klass);
	/* One that was woken has been through select_cpu; others have lost their CPU or are new. */
	preempt_for_queued(p, tctx, word, woken, woken && !(enq_flags & SCX_ENQ_REENQ));
}

/* By a policy for study: whatever that has not said of the task already, it is asked. */
static __always_inline void enqueue_for_study(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page,
					      struct control_word word, u64 enq_flags)
{
	u32 klass = task_class(tctx);

	if (enq_flags & SCX_ENQ_REENQ || gave_way(p, tctx, enq_flags)) {
		queue_alone(p, word, QUEUE_AGAIN, enq_flags);
		return;
	}
	if (is_pinned(p) && !word.full_user && run_pinned_at_once(p, page, word, klass, enq_flags))
		return;
	if (klass != SCHERZO_CLASS_INTERACTIVE)
		count_here(SCHERZO_CNT_CONTENDED_BATCH);
	else if (enq_flags & SCX_ENQ_WAKEUP && !word.full_user && queue_alone(p, word, QUEUE_CLASSIFIED, enq_flags))
		return;
	if (!submit(p, tctx, page, klass, enq_flags))
		queue_alone(p, word, QUEUE_ALONE, enq_flags);
}

/* Where a task goes that no CPU was taken for: into a DSQ of ours or to user space. */
static __always_inline void enqueue_contended(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page,
					      struct control_word word, u64 enq_flags)
{
	if (!tctx || (study_policy && (is_degraded() || frees_memory(p)))) {
		queue_alone(p, word, QUEUE_ALONE, enq_flags);
		return;
	}
	follow_wait(p, tctx);
	if (cores_differ && tctx->moves_up && !(enq_flags & SCX_ENQ_WAKEUP) && move_up(p, word_bits(word), enq_flags))
		return;
	if (study_policy)
		enqueue_for_study(p, tctx, page, word, enq_flags);
	else
		enqueue_by_policy(p, tctx, page, word, enq_flags);
}

void BPF_STRUCT_OPS(scherzo_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word;
	u64 kick_flags;
	s32 cpu;

	if (!page) {
		insert_by_arrival(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	word = control_word(page);
	if (tctx) {
		leave_dsq(tctx);
		forget_release(tctx);
		/* Pinned tasks and those that are new have not been through select_cpu. */
		if (!tctx->wait_since_ns && enq_flags & SCX_ENQ_WAKEUP)
			wake_up(p, tctx, clock_now());
		else if (!tctx->wait_since_ns)
			start_waiting(p, tctx, clock_now());
	}
	if (gets_no_interrupts(cpu_ctx(bpf_get_smp_processor_id()))) {
		/* The kernel itself reschedules the CPU that it chose for the task. */
		run_at_once(p, page, enq_flags | SCX_ENQ_PREEMPT, SCHERZO_CNT_OFFLINE);
		return;
	}
	if (may_not_migrate(p, enq_flags)) {
		/*
		 * Its migration is disabled, so only its CPU can run it: without SCX_OPS_ENQ_MIGRATION_DISABLED the
		 * kernel does the same.
		 */
		run_at_once(p, page, enq_flags, SCHERZO_CNT_KERNEL);
		return;
	}
	if (is_engine(p)) {
		WRITE_ONCE(engine_waits, 1);
		insert_by_arrival(p, ENGINE_DSQ, SLICE_MAX_NS, enq_flags);
		cpu = engine_cpu(p, word, &kick_flags);
		make_room_for_engine(cpu, kick_flags);
		scx_bpf_kick_cpu(cpu, kick_flags);
		return;
	}
	if (is_kthread(p) && is_pinned(p)) {
		/*
		 * A higher class has its CPU. In the local DSQ again, it would be re-enqueued at each switch between
		 * real-time tasks.
		 */
		if (!tctx || !(enq_flags & SCX_ENQ_REENQ)) {
			run_at_once(p, page, enq_flags, SCHERZO_CNT_KERNEL);
			return;
		}
		queue_kthread_on_own_cpu(p, tctx, page, enq_flags);
		arm_watchdog();
		return;
	}
	if (READ_ONCE(limits_in_use) && park(p, enq_flags))
		return;
	enqueue_contended(p, tctx, page, word, enq_flags);
	/* After the task was queued: the watchdog timer may be about to stop because it has found nothing. */
	arm_watchdog();
}

void BPF_STRUCT_OPS(scherzo_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	cancel_flight(tctx);
	if (deq_flags & SCX_DEQ_SLEEP)
		uncount_weight(tctx, clock_now());
}

#endif /* SCHERZO_ENQUEUE_BPF_H */
