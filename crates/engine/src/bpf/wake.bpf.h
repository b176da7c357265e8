/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wake.bpf.h: a task wakes up: an idle CPU, or one that is taken from another task, or none (ops.select_cpu).
 */
#ifndef SCHERZO_WAKE_BPF_H
#define SCHERZO_WAKE_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "flight.bpf.h"
#include "follow.bpf.h"
#include "higher_class.bpf.h"
#include "kin.bpf.h"
#include "kind.bpf.h"
#include "limits.bpf.h"
#include "seat.bpf.h"

static __always_inline void run_at_once(struct task_struct *p, const struct scherzo_control *page, u64 enq_flags,
					enum scherzo_counter counter)
{
	insert_by_arrival(p, SCX_DSQ_LOCAL, default_slice_ns(page), enq_flags);
	count_here(counter);
}

/*
 * This CPU is being taken down and has passed the point where it still gets interrupts. Work for its own interrupt
 * (scx_bpf_kick_cpu(), a ring's notification, a timer that is started) would stay in its list until it is taken down the next
 * time, and block whatever is added to that list meanwhile. Wake-ups do come from here: of the task that asked for the CPU to
 * be taken down, and by the interrupt work that the kernel flushes last.
 */
static __always_inline bool gets_no_interrupts(const struct cpu_ctx *this_cpuc)
{
	const struct cpumask *online;
	bool gone;

	if (!this_cpuc || this_cpuc->online)
		return false;
	online = scx_bpf_get_online_cpumask();
	gone = !bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), online);
	scx_bpf_put_cpumask(online);
	return gone;
}

static __always_inline void start_waiting(struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	tctx->wait_since_ns = now;
	tctx->wait_cpu = cpu;
	tctx->wait_higher_class_ns = cpuc ? cpu_higher_class_ns(cpuc, now) : 0;
}

/* The same for one that was woken, which ends a burst; here or, if it is pinned, where it is enqueued, on the CPU of who wakes it. */
static __always_inline void wake_up(struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	if (waker->flags & PF_EXITING)
		inherit_from_child(p, waker);
	tctx->woken = true;
	tctx->last_burst_ns = tctx->burst_ns;
	tctx->burst_ns = 0;
	tctx->gathers = false;
	credit_sleep(p, tctx, now);
	start_waiting(p, tctx, now);
}

/*
 * The engine has the task's CPU and little to do there: it is gone again in microseconds, sooner than any other CPU could
 * be had.
 */
static __always_inline bool waits_behind_engine(struct task_struct *p, s32 prev_cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);

	return cpuc && READ_ONCE(cpuc->runs_engine) && may_run_on(p, prev_cpu) &&
	       bpf_ringbuf_query(&queued_tasks, BPF_RB_AVAIL_DATA) <= RING_NEARLY_EMPTY_BYTES;
}

/*
 * Low-power: a CPU that carries batch work anyway, idle or taken from that work, before one that sleeps is woken. The CPU,
 * on which the task then runs at once, or -1.
 */
static s32 run_on_awake_cpu(struct task_struct *p, const struct task_ctx *tctx, const struct scherzo_control *page,
			    struct control_word word, u32 klass)
{
	s32 cpu = low_power_cpu(p, LOW_POWER_IDLE);

	if (cpu >= 0) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		return cpu;
	}
	if (klass != SCHERZO_CLASS_INTERACTIVE || !word.preemption)
		return -1;
	if (!study_policy && must_not_preempt(tctx, cpu_llc(scx_bpf_task_cpu(p))))
		return -1;
	cpu = low_power_cpu(p, LOW_POWER_PREEMPT);
	if (cpu >= 0)
		run_at_once(p, page, SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
	return cpu;
}

/*
 * Other prompt tasks wait that are due before this one. If it runs so briefly that they hardly wait for longer, it is let through all the
 * same: where more is asked of the prompt than there are CPUs for, all are late, and each that is short would wait for the long ones.
 */
static s32 slip_in(struct task_struct *p, const struct scherzo_control *page, s32 prev_cpu)
{
	s32 cpu = interrupt_any_longer(p, prev_cpu, true);

	if (cpu >= 0)
		run_at_once(p, page, SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
	return cpu;
}

/*
 * The busy CPU that a task takes if it found no idle one, or -1 if it has to wait in a DSQ: the waker's if that is
 * about to sleep. A waker that waker_is_done() believes comes first; and for interactive tasks, which may take others, one that
 * only says so comes last.
 */
static __always_inline s32 take_busy_cpu(struct task_struct *p, struct task_ctx *tctx,
					 const struct scherzo_control *page, struct control_word word,
					 const struct cpu_ctx *waker_cpuc, s32 prev_cpu, bool waker_says_done, u64 now)
{
	struct cpu_ctx *cpuc;
	s32 cpu;

	if (waker_says_done && waker_is_done(waker_cpuc, BRIEF_NS, now) && follows_waker(p, tctx, now)) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		return bpf_get_smp_processor_id();
	}
	/* Not before: who follows a waker takes its CPU from nobody. */
	if (!study_policy && !tctx->prompt)
		return -1;
	if (!study_policy && yields_to_fair(cpu_llc(prev_cpu), tctx->due_ns))
		return -1;
	if (!study_policy && is_preceded(tctx, cpu_llc(prev_cpu)))
		return word.preemption ? slip_in(p, page, prev_cpu) : -1;
	if (word.preemption && (waits_behind_engine(p, prev_cpu) || waits_behind_brief(p, tctx, prev_cpu, now))) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		return prev_cpu;
	}
	if (word.preemption) {
		cpu = interrupts_longer(p, tctx, prev_cpu, BURST_MIN_NS) ? prev_cpu : preempt_cpu(p, prev_cpu);
		if (cpu < 0 && !study_policy)
			cpu = interrupt_any_longer(p, prev_cpu, false);
		cpuc = cpu_ctx(cpu);
		if (cpuc) {
			note_brief(cpuc, tctx, now + TAKEOVER_NS);
			run_at_once(p, page, SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
			return cpu;
		}
	}
	if (!waker_says_done || !follows_waker(p, tctx, now))
		return -1;
	run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
	return bpf_get_smp_processor_id();
}

s32 BPF_STRUCT_OPS(scherzo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct scherzo_control *page = control_page();
	const struct cpu_ctx *waker_cpuc = cpu_ctx(bpf_get_smp_processor_id());
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word;
	bool idle = false;
	u32 klass;
	u64 now;
	s32 cpu;

	if (!page || !tctx || !waker_cpuc)
		return prev_cpu;
	word = control_word(page);
	/* Its place is chosen in enqueue: a local DSQ could be taken by a higher class, from where nothing would fetch it. */
	if (is_engine(p))
		return prev_cpu;

	now = clock_now();
	if (wake_flags & SCX_WAKE_TTWU) {
		if (wake_flags & SCX_WAKE_SYNC && waker_is_done(waker_cpuc, BRIEF_NS, now))
			leave_out_waker(tctx);
		wake_up(p, tctx, now);
		note_feeding(tctx, wake_flags);
		if (wake_flags & SCX_WAKE_SYNC)
			let_messages_gather(p, tctx);
	}
	if (word.full_user || gets_no_interrupts(waker_cpuc))
		return prev_cpu;
	if (READ_ONCE(limits_in_use) && waits_for_limit(p, tctx, now))
		return prev_cpu;
	klass = task_class(tctx);
	if (word.mode == SCHERZO_MODE_LOW_POWER && !leaves_order_to_arrival()) {
		cpu = run_on_awake_cpu(p, tctx, page, word, klass);
		if (cpu >= 0) {
			refresh(p, tctx, page, now, SCX_ENQ_WAKEUP);
			return cpu;
		}
		if (stays_packed(p, word, klass))
			return prev_cpu;
	}

	if (READ_ONCE(nr_idle) <= 0) {
		/* No CPU idles: there is nothing to search. */
		cpu = -1;
	} else if (follows_brief_waker(p, tctx, waker_cpuc, wake_flags, now)) {
		cpu = bpf_get_smp_processor_id();
		idle = true;
	} else if (cores_differ || word.own_idle) {
		cpu = find_idle_cpu(p, prev_cpu, word_bits(word));
		idle = cpu >= 0;
	} else {
		/* The kernel gives the waker's CPU away where any CPU idles, whoever waits for that one and may run on no other. */
		if (wake_flags & SCX_WAKE_SYNC && others_come_first(tctx, bpf_get_smp_processor_id(), now))
			wake_flags &= ~(u64)SCX_WAKE_SYNC;
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	}
	if (idle) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		refresh(p, tctx, page, now, SCX_ENQ_WAKEUP);
		return cpu;
	}
	if ((study_policy && klass != SCHERZO_CLASS_INTERACTIVE) || leaves_order_to_arrival())
		return prev_cpu;
	cpu = take_busy_cpu(p, tctx, page, word, waker_cpuc, prev_cpu, wake_flags & SCX_WAKE_SYNC, now);
	if (cpu < 0)
		return prev_cpu;
	refresh(p, tctx, page, now, SCX_ENQ_WAKEUP);
	return cpu;
}

#endif /* SCHERZO_WAKE_BPF_H */
