/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * follow.bpf.h: message passing. A task that is woken by one about to sleep takes over that one's CPU: what is passed on is
 * in its cache, and no CPU is interrupted and no task queued.
 *
 * Many wakers say that they are about to sleep, and are not: every write to a pipe or a local socket does. One that is to be
 * believed (waker_is_done()) is followed before anything else is tried; others only if there is no CPU to be had at once. And a
 * task whose own CPU is about to be free waits for that. Where one task sends to many others without a pause, these let messages gather.
 */
#ifndef SCHERZO_FOLLOW_BPF_H
#define SCHERZO_FOLLOW_BPF_H

#include "control.bpf.h"
#include "credit.bpf.h"
#include "dispatch.bpf.h"
#include "kind.bpf.h"
#include "queue.bpf.h"

/* A task that has woken others with so many messages in a burst, and goes on, produces for them. */
#define NR_MESSAGES_OF_PRODUCER 8

/* How long a waker that promised to sleep may still run. */
#define SYNC_LEASH_NS (500 * NSEC_PER_USEC)
/* How much later than the first in the DSQ the task it wakes may be due and still go first. */
#define FOLLOW_GRACE_NS (500 * NSEC_PER_USEC)

/* Both belong to the same unit or application, as far as these have control groups. */
static __always_inline bool are_in_same_cgroup(struct task_struct *p, struct task_struct *other)
{
	/* Pointers loaded after the cast are never trusted, so the verifier need not find out, see VERIFIED_ONCE. */
	const struct task_struct *one = bpf_core_cast(p, struct task_struct), *two = bpf_core_cast(other, struct task_struct);

	if (!bpf_core_field_exists(p->cgroups) || one->cgroups == two->cgroups)
		return true;
	return one->cgroups && two->cgroups && one->cgroups->dfl_cgrp == two->cgroups->dfl_cgrp;
}

/*
 * A task is woken by a message, runs briefly each time, and who sends goes on sending: messages gather before it runs. With a switch for
 * each few of them, all get less done. So it is due some time later, and if who sends takes turns, so does who receives. Not where they
 * belong to different applications: one that sends much must not make the desktop, or a bus, late for others.
 */
VERIFIED_ONCE int let_messages_gather(struct task_struct *p __arg_trusted, struct task_ctx *tctx)
{
	struct cpu_ctx *cpuc = cpu_ctx(bpf_get_smp_processor_id());

	if (!tctx || !cpuc || tctx->mean_burst_ns >= POLICY_MESSAGE_BURST_NS || !cpuc->burst_from_ns)
		return 0;
	if (cpuc->nr_messages < NR_MESSAGES_OF_PRODUCER) {
		cpuc->nr_messages++;
		return 0;
	}
	if (!are_in_same_cgroup(p, bpf_get_current_task_btf()))
		return 0;
	tctx->gathers = true;
	if (!tctx->prompt)
		return 0;
	if (READ_ONCE(cpuc->victim_deadline)) {
		stop_being_prompt(tctx, POLICY_YIELD_AHEAD_NS);
		tctx->due_ns = 0;
	} else if (tctx->due_ns) {
		tctx->due_ns += POLICY_MESSAGES_GATHER_NS;
	}
	return 0;
}

/*
 * The first in a DSQ was due a good while before a task with this deadline; or at all, if it is light and this one is not: with pairs that pass
 * messages on every CPU it would wait for so long each time that it wakes.
 */
static __always_inline bool was_due_before(u64 dsq_id, u64 deadline_ns)
{
	u64 head_ns = 0;

	if (!head_vtime(dsq_id, &head_ns))
		return false;
	if (policy_use_of_deadline(head_ns) >= POLICY_USE_LIGHT && policy_use_of_deadline(deadline_ns) < POLICY_USE_LIGHT)
		return signed_delta(deadline_ns, head_ns) > 0;
	return signed_delta(deadline_ns, head_ns) > (s64)FOLLOW_GRACE_NS;
}

/* The same for a task that takes turns: a prompt task waits, or one that is behind it in virtual time. */
static __always_inline bool is_behind_others(struct task_ctx *tctx, u32 llc, s32 cpu)
{
	if (READ_ONCE(nr_in_flight) > 0 || nr_queued(DSQ_PROMPT, llc) || nr_queued(DSQ_CPU_PROMPT, cpu))
		return true;
	place_in_virtual_time(tctx, llc);
	return is_due_before(DSQ_FAIR, llc, tctx->vruntime) || is_due_before(DSQ_CPU_FAIR, cpu, tctx->vruntime);
}

/*
 * Another task should have this CPU before this one, which would get it without a look at the DSQs. A task that is due a
 * moment before does not count: otherwise a single task in the DSQ would send all message passing through the DSQ, each
 * task waiting for the next.
 */
VERIFIED_ONCE int others_come_first(struct task_ctx *tctx, s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u32 llc = cpuc ? cpuc->llc : 0;
	u64 deadline_ns = 0;

	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0)
		return true;
	if (cpuc && nothing_waits(cpuc))
		return false;
	if (others_are_due(llc, now))
		return true;
	if (!study_policy) {
		/* What a higher class took from this CPU, or was queued before the seat changed: it has no order among the others. */
		if (nr_queued(DSQ_CPU, cpu) || nr_queued(DSQ_INTERACTIVE, llc))
			return true;
		if (tctx && !tctx->prompt)
			return is_behind_others(tctx, llc, cpu);
		if (overdue_dsq(llc, cpu, now))
			return true;
		if (yields_to_fair(llc, tctx ? tctx->due_ns : 0) &&
		    (nr_queued(DSQ_FAIR, llc) || nr_queued(DSQ_CPU_FAIR, cpu)))
			return true;
		if (!nr_queued(DSQ_PROMPT, llc) && !nr_queued(DSQ_CPU_PROMPT, cpu))
			return false;
		deadline_ns = tctx ? tctx->due_ns : now + DEADLINE_REACH_NS;
		return was_due_before(DSQ_ID(DSQ_PROMPT, llc), deadline_ns) ||
		       was_due_before(DSQ_ID(DSQ_CPU_PROMPT, cpu), deadline_ns);
	}
	if (!nr_queued(DSQ_INTERACTIVE, llc) && !nr_queued(DSQ_CPU, cpu))
		return false;
	/* Without a classification it comes after all others. */
	if (!tctx || !classified_deadline(task_slot(tctx), now, &deadline_ns))
		deadline_ns = now + DEADLINE_REACH_NS;
	return was_due_before(DSQ_ID(DSQ_INTERACTIVE, llc), deadline_ns) ||
	       was_due_before(DSQ_ID(DSQ_CPU, cpu), deadline_ns);
}

/*
 * A waker that says it is about to sleep, and is to be believed: it exits, or ran briefly the last time and has not run for
 * longer so far.
 */
static __always_inline bool waker_is_done(const struct cpu_ctx *waker_cpuc, u64 brief_ns, u64 now)
{
	const struct task_struct *waker = bpf_get_current_task_btf();

	if (waker->flags & PF_EXITING)
		return true;
	return waker_cpuc->burst_from_ns && waker_cpuc->last_burst_ns < brief_ns &&
	       time_delta(now, waker_cpuc->burst_from_ns) < (s64)brief_ns;
}

/*
 * A waker that says it is about to sleep leaves its CPU to the task it wakes: message passing then costs no detour through
 * a DSQ. Only while no other task comes first, and with a short slice in case the waker goes on: many say so and do not.
 */
VERIFIED_ONCE int follows_waker(struct task_struct *p __arg_trusted, struct task_ctx *tctx, u64 now)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct task_struct *waker = bpf_get_current_task_btf();

	if (!may_run_on(p, cpu) || is_engine(waker) || waker->prio < MAX_RT_PRIO || others_come_first(tctx, cpu, now))
		return false;
	if (waker->scx.slice > SYNC_LEASH_NS)
		scx_bpf_task_set_slice(waker, SYNC_LEASH_NS);
	return true;
}

/*
 * The waker will be gone sooner than an idle CPU would have woken up: its CPU is the better one although others idle. Both
 * sides of a conversation in small messages then stay on one CPU.
 */
static __always_inline bool follows_brief_waker(struct task_struct *p, struct task_ctx *tctx, const struct cpu_ctx *waker_cpuc,
						u64 wake_flags, u64 now)
{
	return !study_policy && wake_flags & SCX_WAKE_SYNC && waker_is_done(waker_cpuc, WORTH_WAITING_NS, now) &&
	       follows_waker(p, tctx, now);
}

/*
 * The task that has the CPU where this one was is gone again in microseconds, sooner than another one could be interrupted
 * and switch; batch work elsewhere goes on, and the task finds its cache. Only one waits: two would wait for each other's
 * guess. None does while others come first: a chain of brief tasks that wake each other would keep the CPU from ever looking
 * at a DSQ. Nor while a higher class has the CPU, of which nothing is known.
 */
static __always_inline bool waits_behind_brief(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu, u64 now)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);
	u64 until_ns = cpuc ? READ_ONCE(cpuc->brief_until_ns) : 0;

	return until_ns && signed_delta(until_ns, now) > 0 && !READ_ONCE(cpuc->higher_class_since_ns) &&
	       may_run_on(p, prev_cpu) && !others_come_first(tctx, prev_cpu, now);
}

#endif /* SCHERZO_FOLLOW_BPF_H */
