/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overdue.bpf.h: tasks that take turns, and whose turn does not come.
 *
 * Problem. What the prompt may take is measured for a whole LLC (lead.bpf.h). Where they want one CPU of it, or a few, a task that may run
 * on no other got nothing there, for others have more than they are owed elsewhere.
 *
 * Approach. The watchdog timer notes since when the first task of each DSQ has been the first. Once that is too long, a CPU takes it before
 * the prompt, and lets it have its slice: the sooner the heavier the task is, and sooner where no other CPU could have taken it. One that every
 * CPU may take is owed to by its LLC, and is looked after here only once it has been the first for a second.
 *
 * Limits. It is seen every 50 ms, so a task that prompt ones keep from its only CPU gets a slice that often at most.
 */
#ifndef SCHERZO_OVERDUE_BPF_H
#define SCHERZO_OVERDUE_BPF_H

#include "dsq.bpf.h"
#include "state.bpf.h"
#include "weight.bpf.h"

static __always_inline bool is_first_for_too_long(const struct head_watch *head, u64 normal_ns, u64 turn_ns, u64 now)
{
	s64 limit_ns = policy_overdue_ns(normal_ns, head->weight);

	return head->pid && time_delta(now, head->since_ns) > limit_ns && time_delta(now, turn_ns) > limit_ns;
}

/* The kind of DSQ that this CPU should take a task of before the prompt, 0 if none is overdue. */
VERIFIED_ONCE u32 overdue_dsq(u32 llc, s32 cpu, u64 now)
{
	/* Of a single CPU, what is measured for the LLC holds. */
	u64 alone_ns = cpus_per_llc() > 1 ? POLICY_OVERDUE_ALONE_NS : POLICY_OVERDUE_NS;
	const struct cpu_ctx *cpuc = cpu_ctx(cpu);
	const struct llc_ctx *llcx = llc_ctx(llc);

	if (!cpuc || !llcx)
		return 0;
	if (READ_ONCE(cpuc->nr_own_fair) > 0 && is_first_for_too_long(&cpuc->fair_head, alone_ns, cpuc->overdue_turn_ns, now))
		return DSQ_CPU_FAIR;
	if (READ_ONCE(llcx->nr_fair) > 0 &&
	    is_first_for_too_long(&llcx->fair_head, POLICY_OVERDUE_NS, cpuc->overdue_turn_ns, now))
		return DSQ_FAIR;
	return 0;
}

/* Takes a task that is overdue; what wakes does not take the CPU from it at once. */
static __always_inline bool take_overdue(struct cpu_ctx *cpuc, u32 llc, s32 cpu)
{
	u64 now;
	u32 kind;

	if (!nr_queued(DSQ_PROMPT, llc) && !nr_queued(DSQ_CPU_PROMPT, cpu))
		return false;
	now = clock_now();
	kind = overdue_dsq(llc, cpu, now);
	if (!kind)
		return false;
	cpuc->overdue_turn_ns = now;
	if (!move_to_local(DSQ_ID(kind, kind == DSQ_FAIR ? llc : (u32)cpu)))
		return false;
	cpuc->late_pick = true;
	return true;
}

#endif /* SCHERZO_OVERDUE_BPF_H */
