/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lead.bpf.h: by how much CPU time the prompt tasks of an LLC are ahead of what leaves the others half of their share (policy_lead()).
 *
 * The lead is shared, and changed by atomics; a race costs a slice's worth of it.
 */
#ifndef SCHERZO_LEAD_BPF_H
#define SCHERZO_LEAD_BPF_H

#include "state.bpf.h"
#include "weight.bpf.h"

/* While only prompt tasks are runnable, nothing is owed: no running time counts for or against a kind. */
static __always_inline bool may_change_lead(const struct llc_ctx *llcx)
{
	return READ_ONCE(llcx->fair_weight) > 0 || READ_ONCE(llcx->lead_ns);
}

/* How far the prompt of an LLC may be ahead. */
static __always_inline s64 max_lead_ns(void)
{
	return cpus_per_llc() * POLICY_LEAD_MAX_NS;
}

/* One branch: the verifier follows each in every program that charges a task. */
static __always_inline void add_to_lead(s64 *lead, s64 more_ns, s64 max_ns)
{
	s64 lead_ns = more_ns + __sync_fetch_and_add(lead, more_ns);

	if ((u64)(lead_ns + max_ns) > (u64)(4 * max_ns))
		WRITE_ONCE(*lead, policy_lead_limit(lead_ns, 3 * max_ns, max_ns));
}

/* No other task wants the CPU now. */
static __always_inline void forget_leads(struct llc_ctx *llcx, u64 ran_ns)
{
	s64 lead_ns = READ_ONCE(llcx->lead_ns), light_lead_ns = READ_ONCE(llcx->light_lead_ns);

	if (!(lead_ns | light_lead_ns))
		return;
	WRITE_ONCE(llcx->lead_ns, policy_lead_forgotten(lead_ns, ran_ns));
	WRITE_ONCE(llcx->light_lead_ns, policy_lead_forgotten(light_lead_ns, ran_ns));
}

/* A piece of running time of the task counts for or against its kind: what is prompt, and what of that is light. */
VERIFIED_ONCE int change_lead(u32 llc, u64 ran_ns, const struct task_ctx *tctx)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	s64 prompt_weight, fair_weight, max_ns;
	u64 owed_ns, prompt, use;

	if (!llcx || !tctx)
		return 0;
	prompt = tctx->prompt;
	if (nr_llcs > 1 && prompt)
		__sync_fetch_and_add(&llcx->prompt_ran_ns, ran_ns);
	prompt_weight = READ_ONCE(llcx->prompt_weight);
	fair_weight = READ_ONCE(llcx->fair_weight);
	if (prompt_weight < 0 || fair_weight <= 0) {
		forget_leads(llcx, ran_ns);
		return 0;
	}
	use = tctx->use_level & POLICY_USE_MASK;
	__sync_fetch_and_add(&llcx->ran_of_level_ns[use], ran_ns);
	max_ns = max_lead_ns();
	owed_ns = policy_owed_ns(ran_ns, prompt_weight, fair_weight);
	add_to_lead(&llcx->lead_ns, policy_lead(ran_ns, owed_ns, prompt), max_ns);
	add_to_lead(&llcx->light_lead_ns, policy_lead(ran_ns, owed_ns, prompt & policy_is_one_of_light(use)), 2 * max_ns);
	return 0;
}

/* The prompt have had twice what they may have beside those that wait without credit. */
static __always_inline bool is_fair_long_owed(u32 llc)
{
	struct llc_ctx *llcx = llc_ctx(llc);

	return llcx && READ_ONCE(llcx->lead_ns) > 2 * max_lead_ns();
}

/*
 * A prompt task of this use is not why the others are owed. A light one is, if all light ones alone are three times as far ahead as the prompt
 * may be: of tasks that wake each other on every CPU each has less than others would, and all of them have everything. Not the lightest ones,
 * as long as those have no more than half of the CPUs.
 */
static __always_inline bool keeps_to_share(const struct llc_ctx *llcx, s64 max_ns, u32 use)
{
	if (use < POLICY_USE_LIGHT || use >= POLICY_USE_LITTLE)
		return use >= POLICY_USE_MODEST;
	return READ_ONCE(llcx->light_lead_ns) <= 3 * max_ns || POLICY_USE_LITTLE - use <= READ_ONCE(llcx->nr_light_spared);
}

/* The prompt have had what they may, as far as one with this deadline is concerned. */
VERIFIED_ONCE int yields_to_fair(u32 llc, u64 due_ns)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	u32 use = policy_use_of_deadline(due_ns);
	s64 lead_ns, max_ns;

	if (!llcx)
		return false;
	lead_ns = READ_ONCE(llcx->lead_ns);
	max_ns = max_lead_ns();
	if (lead_ns <= max_ns || keeps_to_share(llcx, max_ns, use))
		return false;
	return use != POLICY_USE_MODERATE || lead_ns > 2 * max_ns;
}

#endif /* SCHERZO_LEAD_BPF_H */
