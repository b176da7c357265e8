/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overdue.bpf.h: tasks that take turns, and whose turn does not come.
 *
 * Problem. What the prompt may take is measured for a whole LLC (lead.bpf.h). Where they want one CPU of it, or a few, a task that may run
 * on no other got nothing there, for others have more than they are owed elsewhere.
 *
 * Approach. It is noted since when the first task of each DSQ has been the first. Once that is too long, a CPU takes it before the prompt, and
 * lets nothing interrupt it: the sooner the heavier the task is. Of a DSQ that one CPU alone takes from that is noted at once, and the turn is
 * brief, so that it comes often: half of the task's share beside the prompt tasks that want this CPU. Of the others the watchdog timer notes it,
 * every 50 ms, and the turn is a slice. A task that every CPU may take is owed to by its LLC, and is looked after here only once it has been the
 * first for a second.
 */
#ifndef SCHERZO_OVERDUE_BPF_H
#define SCHERZO_OVERDUE_BPF_H

#include "dsq.bpf.h"
#include "run_timer.bpf.h"
#include "state.bpf.h"
#include "weight.bpf.h"

static __always_inline bool is_first_for_too_long(const struct head_watch *head, u64 normal_ns, u64 turn_ns, u64 now)
{
	s64 limit_ns = policy_overdue_ns(normal_ns, head->weight);

	return head->pid && time_delta(now, head->since_ns) > limit_ns && time_delta(now, turn_ns) > limit_ns;
}

/* How long the first of DSQ_CPU_FAIR may wait, if it is of nice 0. Of a single CPU, what is measured for the LLC holds. */
static __always_inline u64 overdue_alone_ns(const struct cpu_ctx *cpuc)
{
	s32 nr_own = READ_ONCE(cpuc->nr_own_prompt);

	if (cpus_per_llc() <= 1)
		return POLICY_OVERDUE_NS;
	return nr_own > 0 ? policy_overdue_alone_ns(nr_own) : POLICY_OVERDUE_ALONE_NS;
}

/* The kind of DSQ that this CPU should take a task of before the prompt, 0 if none is overdue. */
VERIFIED_ONCE u32 overdue_dsq(u32 llc, s32 cpu, u64 now)
{
	const struct cpu_ctx *cpuc = cpu_ctx(cpu);
	const struct llc_ctx *llcx = llc_ctx(llc);

	if (!cpuc || !llcx)
		return 0;
	if (READ_ONCE(cpuc->nr_own_fair) > 0 &&
	    is_first_for_too_long(&cpuc->fair_head, overdue_alone_ns(cpuc), cpuc->overdue_turn_ns, now))
		return DSQ_CPU_FAIR;
	if (READ_ONCE(llcx->nr_fair) > 0 &&
	    is_first_for_too_long(&llcx->fair_head, POLICY_OVERDUE_NS, cpuc->overdue_turn_ns, now))
		return DSQ_FAIR;
	return 0;
}

/* How long the turn of the first of DSQ_CPU_FAIR is. */
static __always_inline u64 overdue_turn_ns(const struct cpu_ctx *cpuc, u64 now)
{
	s64 limit_ns = policy_overdue_ns(overdue_alone_ns(cpuc), cpuc->fair_head.weight);

	return policy_overdue_turn_ns(time_delta(now, cpuc->fair_head.since_ns), limit_ns);
}

/* Takes a task that is overdue; what wakes does not take the CPU from it at once. */
static __always_inline bool take_overdue(struct cpu_ctx *cpuc, u32 llc, s32 cpu)
{
	u64 now, turn_ns;
	u32 kind;

	if (!nr_queued(DSQ_PROMPT, llc) && !nr_queued(DSQ_CPU_PROMPT, cpu))
		return false;
	now = clock_now();
	kind = overdue_dsq(llc, cpu, now);
	if (!kind)
		return false;
	cpuc->overdue_turn_ns = now;
	turn_ns = kind == DSQ_CPU_FAIR ? overdue_turn_ns(cpuc, now) : 0;
	if (!move_to_local(DSQ_ID(kind, kind == DSQ_FAIR ? llc : (u32)cpu)))
		return false;
	cpuc->late_pick = true;
	cpuc->next_run_ns = turn_ns;
	return true;
}

/* The task that was taken as overdue begins to run. */
static __always_inline void begin_overdue_turn(struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	if (!cpuc->next_run_ns)
		return;
	end_run_after(cpuc, cpu, cpuc->next_run_ns, now);
	cpuc->next_run_ns = 0;
}

#endif /* SCHERZO_OVERDUE_BPF_H */
