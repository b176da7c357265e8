/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * weight.bpf.h: what a task is worth, and the sum of that over the runnable tasks of each LLC, with and without credit.
 *
 * The sums are shared, and changed by atomics. What a task is counted as stands in one word of its context: the CPU that swaps the
 * word takes back what it said.
 */
#ifndef SCHERZO_WEIGHT_BPF_H
#define SCHERZO_WEIGHT_BPF_H

#include "control.bpf.h"
#include "foreground.bpf.h"
#include "groups.bpf.h"
#include "kind.bpf.h"
#include "state.bpf.h"

#ifndef SCHED_BATCH
#define SCHED_BATCH 3
#endif
#ifndef SCHED_IDLE
#define SCHED_IDLE 5
#endif

/* task_ctx.counted: set, prompt, group, LLC, weight. */
#define COUNTED_SET (1ULL << 63)
#define COUNTED_PROMPT (1ULL << 62)
#define COUNTED_GROUP_SHIFT 48
#define COUNTED_GROUP_MASK (NR_GROUPS - 1)
#define COUNTED_LLC_SHIFT 32
#define COUNTED_LLC_MASK 0xffffU

/*
 * A thread of the kernel weighs nothing less for being niced: it may hold a lock that others wait for. While khugepaged, of nice 19,
 * had its turns beside hogs, a process whose memory it was at waited for seconds.
 */
static __always_inline u32 weight_of(const struct task_struct *p)
{
	u32 weight;

	if (p->policy == SCHED_IDLE)
		return POLICY_WEIGHT_IDLE;
	weight = policy_weight(p->static_prio - MAX_RT_PRIO);
	return is_kthread(p) && weight < POLICY_WEIGHT_NORMAL ? POLICY_WEIGHT_NORMAL : weight;
}

/*
 * The slice that the task has asked for with sched_setattr() (sched_runtime, from 6.12), 0 if it has not: the kernel notes it whichever
 * class has the task.
 */
static __always_inline u32 asked_slice_us(const struct task_struct *p)
{
	return bpf_core_field_exists(p->se.custom_slice) && p->se.custom_slice ? p->se.slice / NSEC_PER_USEC : 0;
}

/* SCHED_BATCH and SCHED_IDLE ask for no preference at wake-up. */
static __always_inline bool may_be_prompt(const struct task_struct *p)
{
	return p->policy != SCHED_BATCH && p->policy != SCHED_IDLE;
}

#define MAX_NR_SERVING 255

/* What the task is worth now, among those of its group and all others. It counts as active in its group from here on. */
static __always_inline void weigh(struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	u32 number = bpf_core_field_exists(p->sched_task_group) ? group_of(p, now) : ROOT_GROUP;
	u32 weight = weight_in_foreground(p, weight_of(p));
	struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

	tctx->group = number;
	tctx->nr_serving = policy_lesser(p->nr_cpus_allowed, MAX_NR_SERVING);
	join_group(tctx, number, weight, now);
	tctx->weight = group ? flat_weight(group, number, weight, now) : weight << POLICY_WEIGHT_SHIFT;
	tctx->own_weight = group ? (u64)weight * group->credit_scale / POLICY_WEIGHT_NORMAL ?: 1 : weight;
}

/*
 * A task that wakes several times in a stretch of this length, a power of two, is weighed once in it: beside what a switch costs, to do so each
 * time is dear. What its group is worth holds for as long, see FLATTEN_PERIOD_NS.
 */
#define WEIGHED_FOR_NS (1ULL << 18)

/* It is runnable again, and worth what it was a moment ago. */
static __always_inline void return_to_group(struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	join_group(tctx, tctx->group, weight_in_foreground(p, weight_of(p)), now);
}

VERIFIED_ONCE int add_weight(u64 counted, s32 sign)
{
	struct llc_ctx *llcx = llc_ctx(counted >> COUNTED_LLC_SHIFT & COUNTED_LLC_MASK);
	u32 number = counted >> COUNTED_GROUP_SHIFT & COUNTED_GROUP_MASK;
	s64 weight = (s64)(u32)counted * sign;
	struct group_ctx *group;

	if (!llcx)
		return 0;
	if (!(counted & COUNTED_PROMPT)) {
		__sync_fetch_and_add(&llcx->fair_weight, weight);
		return 0;
	}
	__sync_fetch_and_add(&llcx->prompt_weight, weight);
	group = number == ROOT_GROUP ? NULL : group_ctx(number);
	if (group)
		__sync_fetch_and_add(&group->prompt_weight, weight);
	return 0;
}

/*
 * The task is runnable as what it is now. The CPU that swaps the word takes back what it said, so that nothing is counted
 * twice.
 */
static __always_inline void count_weight(struct task_ctx *tctx, u32 llc)
{
	u64 now_counted = COUNTED_SET | (tctx->prompt ? COUNTED_PROMPT : 0) |
			  (u64)(tctx->group & COUNTED_GROUP_MASK) << COUNTED_GROUP_SHIFT |
			  (u64)(llc & COUNTED_LLC_MASK) << COUNTED_LLC_SHIFT | tctx->weight;
	u64 before;

	if (READ_ONCE(tctx->counted) == now_counted)
		return;
	before = __sync_lock_test_and_set(&tctx->counted, now_counted);
	if (before)
		add_weight(before, -1);
	add_weight(now_counted, 1);
}

/* The task is not runnable any more. */
static __always_inline void uncount_weight(struct task_ctx *tctx, u64 now)
{
	u64 before;

	leave_group(tctx, now);
	if (!READ_ONCE(tctx->counted))
		return;
	before = __sync_lock_test_and_set(&tctx->counted, 0);
	if (before)
		add_weight(before, -1);
}

/* Online CPUs for each LLC on average, at least 1. Kept, as it is asked for wherever a task is charged. */
static u64 nr_cpus_per_llc = 1;

static __always_inline u64 cpus_per_llc(void)
{
	return READ_ONCE(nr_cpus_per_llc);
}

static __always_inline void note_cpus_per_llc(u64 nr_online)
{
	WRITE_ONCE(nr_cpus_per_llc, nr_online / (nr_llcs ? nr_llcs : 1) ?: 1);
}

#endif /* SCHERZO_WEIGHT_BPF_H */
