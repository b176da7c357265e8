/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy_lead.h: by how much the prompt tasks together are ahead of what leaves the others half of their share.
 * A part of policy.h, which includes it.
 */
#ifndef SCHERZO_POLICY_LEAD_H
#define SCHERZO_POLICY_LEAD_H

/*
 * Of a time that some task has run for while others want to run, what the others are owed: of the time of all CPUs five eighths of their
 * share, F / (P + F) with P and F the flat weights of the runnable prompt and of the others. That is a quarter more than the half that they are
 * promised, since neither weight stands still.
 */
static inline u64 policy_owed_ns(u64 run_ns, u64 prompt_weight, u64 fair_weight)
{
	u64 all;

	/* Weights lose four bits, so that thousands of tasks do not overflow. The time stays exact: messages run for microseconds. */
	if (run_ns > POLICY_CREDIT_MAX_NS)
		run_ns = POLICY_CREDIT_MAX_NS;
	all = 8 * ((prompt_weight >> 4) + (fair_weight >> 4));
	return all ? run_ns * 5 * (fair_weight >> 4) / all : 0;
}

/* By how much those get ahead that the task is one of (1), or by how much others are less ahead of them (0, negative). */
static inline s64 policy_lead(u64 run_ns, u64 owed_ns, u64 is_one)
{
	return owed_ns - run_ns * (1 - is_one);
}

/*
 * What is left of that after running for so long while no other task wanted to. Tasks that wait for a disk or for each other all sleep for a
 * moment now and then, and are still owed what they were before; after a lead of POLICY_LEAD_MAX_NS in four times as long nothing is.
 */
static inline s64 policy_lead_forgotten(s64 lead_ns, u64 run_ns)
{
	s64 left_ns = lead_ns - (s64)(run_ns / 4);

	return left_ns & ~(left_ns >> 63);
}

/* The lead within what it may be, where it is beyond: up to the first, or down to less than nothing by the second. */
static inline s64 policy_lead_limit(s64 lead_ns, s64 most_ns, s64 least_ns)
{
	return most_ns - ((most_ns + least_ns) & (lead_ns >> 63));
}

#endif /* SCHERZO_POLICY_LEAD_H */
