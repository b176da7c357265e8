/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * group_credit.bpf.h: how much of their credit the tasks of a control group may spend together.
 *
 * Among the tasks that have credit, the one that runs shortest goes first, and many of these would keep all others from running. So what
 * the tasks of a group spend is limited to its share beside other groups that spend some, and to twice its share beside all while those are
 * owed that take turns: past that its tasks take turns by virtual runtime, as if they had none. Between tasks of one group, and in the
 * root, nothing is limited.
 */
#ifndef SCHERZO_GROUP_CREDIT_BPF_H
#define SCHERZO_GROUP_CREDIT_BPF_H

#include "groups.bpf.h"
#include "lead.bpf.h"
#include "state.bpf.h"

/* The weight beside which a group earns credit, of all that is runnable. */
static __always_inline u64 weight_beside_group(const struct group_ctx *group)
{
	s64 prompt_weight = -READ_ONCE(group->prompt_weight), owed_weight = 0, max_ns = max_lead_ns();
	u32 llc;

	bpf_for(llc, 0, nr_llcs) {
		const struct llc_ctx *llcx = llc_ctx(llc);

		if (!llcx)
			continue;
		prompt_weight += READ_ONCE(llcx->prompt_weight);
		if (READ_ONCE(llcx->lead_ns) > max_ns)
			owed_weight += READ_ONCE(llcx->fair_weight);
	}
	return policy_weight_beside_group(READ_ONCE(group->flat_weight), prompt_weight > 0 ? prompt_weight : 0,
					  owed_weight > 0 ? owed_weight : 0);
}

/* What a group has earned since it last did, by the one CPU that notes the time. */
VERIFIED_ONCE int add_group_credit(struct group_ctx *group, u64 now)
{
	const struct scherzo_control *page = control_page();
	s64 passed_ns, max_ns, credit_ns;
	u64 since_ns;

	if (!group || !page)
		return 0;
	since_ns = READ_ONCE(group->earned_ns);
	passed_ns = time_delta(now, since_ns);
	if (passed_ns <= 0 || __sync_val_compare_and_swap(&group->earned_ns, since_ns, now) != since_ns)
		return 0;
	max_ns = page->nr_online_cpus * POLICY_GROUP_CREDIT_MAX_NS;
	credit_ns = READ_ONCE(group->credit_ns) + policy_group_earns(passed_ns, page->nr_online_cpus, READ_ONCE(group->flat_weight),
								     weight_beside_group(group));
	if (credit_ns > max_ns)
		credit_ns = max_ns;
	if (credit_ns < -max_ns / 4)
		credit_ns = -max_ns / 4;
	WRITE_ONCE(group->credit_ns, credit_ns);
	if (credit_ns <= 0)
		WRITE_ONCE(group->overspent, true);
	else if (credit_ns > max_ns / 2)
		WRITE_ONCE(group->overspent, false);
	return 0;
}

/* When a task of the group is charged that had credit: what it has earned, but not each time. */
static __always_inline void earn_group_credit(u32 number, u64 now)
{
	struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

	if (group && time_delta(now, READ_ONCE(group->earned_ns)) >= (s64)POLICY_EARN_PERIOD_NS)
		add_group_credit(group, now);
}

/* A task of the group has run on its credit. */
static __always_inline void spend_group_credit(u32 number, u64 spent_ns)
{
	struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

	if (group)
		__sync_fetch_and_sub(&group->credit_ns, spent_ns);
}

/* What a group had spent too much counts no more once none of its tasks has run on credit for so long. */
#define OVERSPENT_LASTS_NS (250 * NSEC_PER_MSEC)

/* The task may have credit, but its group has spent too much. */
static __always_inline bool is_overspent(u32 number, u64 now)
{
	const struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

	return group && READ_ONCE(group->overspent) && time_delta(now, READ_ONCE(group->earned_ns)) < (s64)OVERSPENT_LASTS_NS;
}

#endif /* SCHERZO_GROUP_CREDIT_BPF_H */
