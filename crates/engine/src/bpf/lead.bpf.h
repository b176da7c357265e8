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
static __always_inline bool may_change_lead(u32 llc)
{
	const struct llc_ctx *llcx = llc_ctx(llc);

	return llcx && (READ_ONCE(llcx->fair_weight) > 0 || READ_ONCE(llcx->lead_ns));
}

/* How far the prompt of an LLC may be ahead. */
static __always_inline s64 max_lead_ns(const struct scherzo_control *page)
{
	return cpus_per_llc(page) * POLICY_LEAD_MAX_NS;
}

/* A piece of running time counts for or against its kind. */
VERIFIED_ONCE int change_lead(u32 llc, u64 ran_ns, bool prompt)
{
	const struct scherzo_control *page = control_page();
	struct llc_ctx *llcx = llc_ctx(llc);
	s64 prompt_weight, fair_weight, lead_ns, max_ns;

	if (!page || !llcx)
		return 0;
	if (nr_llcs > 1 && prompt)
		__sync_fetch_and_add(&llcx->prompt_ran_ns, ran_ns);
	prompt_weight = READ_ONCE(llcx->prompt_weight);
	fair_weight = READ_ONCE(llcx->fair_weight);
	if (prompt_weight < 0 || fair_weight <= 0) {
		/* No other task wants the CPU now. */
		lead_ns = READ_ONCE(llcx->lead_ns);
		if (lead_ns)
			WRITE_ONCE(llcx->lead_ns, policy_lead_forgotten(lead_ns, ran_ns));
		return 0;
	}
	lead_ns = policy_lead(ran_ns, prompt, prompt_weight, fair_weight);
	max_ns = max_lead_ns(page);
	lead_ns += __sync_fetch_and_add(&llcx->lead_ns, lead_ns);
	if (lead_ns > 3 * max_ns)
		WRITE_ONCE(llcx->lead_ns, 3 * max_ns);
	else if (lead_ns < -max_ns)
		WRITE_ONCE(llcx->lead_ns, -max_ns);
	return 0;
}

/* The prompt have had what they may have beside those that wait without credit. */
static __always_inline bool is_fair_owed(u32 llc)
{
	const struct scherzo_control *page = control_page();
	struct llc_ctx *llcx = llc_ctx(llc);

	return page && llcx && READ_ONCE(llcx->lead_ns) > max_lead_ns(page);
}

/* They have had twice as much. */
static __always_inline bool is_fair_long_owed(u32 llc)
{
	const struct scherzo_control *page = control_page();
	struct llc_ctx *llcx = llc_ctx(llc);

	return page && llcx && READ_ONCE(llcx->lead_ns) > 2 * max_lead_ns(page);
}

/* The prompt have had what they may, as far as one with this deadline is concerned. */
VERIFIED_ONCE int yields_to_fair(u32 llc, u64 due_ns)
{
	enum policy_use_level use = policy_use_of_deadline(due_ns);

	if (use >= POLICY_USE_MODEST)
		return false;
	return use == POLICY_USE_MODERATE ? is_fair_long_owed(llc) : is_fair_owed(llc);
}

#endif /* SCHERZO_LEAD_BPF_H */
