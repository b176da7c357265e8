/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy_utilisation.h: for how much of its time a task or a CPU runs, for requests of a frequency.
 * A part of policy.h, which includes it.
 */
#ifndef SCHERZO_POLICY_UTILISATION_H
#define SCHERZO_POLICY_UTILISATION_H

/* A mean over so long tells for how much of its time something has run, of POLICY_UTIL_ALL. */
#define POLICY_UTIL_PERIOD_NS (32 * POLICY_MSEC)
#define POLICY_UTIL_BITS 20
#define POLICY_UTIL_ALL (1U << POLICY_UTIL_BITS)

/* The part of a mean that such a time makes up. */
static inline u64 policy_util_part(u64 time_ns)
{
	if (time_ns > POLICY_MAX_SPAN_NS)
		time_ns = POLICY_MAX_SPAN_NS;
	return (time_ns << POLICY_UTIL_BITS) / (time_ns + POLICY_UTIL_PERIOD_NS);
}

/* Mean utilisation after having slept, or having had nothing to run. */
static inline u32 policy_util_idled(u32 util, u64 time_ns)
{
	return util - (util * policy_util_part(time_ns) >> POLICY_UTIL_BITS);
}

/* The same after having run. */
static inline u32 policy_util_ran(u32 util, u64 time_ns)
{
	return POLICY_UTIL_ALL - policy_util_idled(POLICY_UTIL_ALL - util, time_ns);
}

/* Utilisation at the end of bursts: it follows a larger one at once, and a smaller one slowly. */
static inline u32 policy_burst_util(u32 before, u32 util)
{
	return util > before ? util : (3 * before + util) / 4;
}

/* What to ask for, of so much at most, in steps. */
static inline u32 policy_performance(u32 util, u32 most, u32 step)
{
	return (((u64)util * most >> POLICY_UTIL_BITS) + step - 1) / step * step;
}

#endif /* SCHERZO_POLICY_UTILISATION_H */
