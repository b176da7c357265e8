/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * higher_class.bpf.h: CPUs that a higher scheduling class has: real-time, deadline and stop tasks, and in partial mode every
 * task that did not choose SCHED_EXT.
 */
#ifndef SCHERZO_HIGHER_CLASS_BPF_H
#define SCHERZO_HIGHER_CLASS_BPF_H

#include "state.bpf.h"

/* A higher class that has had a CPU for so long starves others. */
#define LONG_HIGHER_CLASS_NS (1000 * NSEC_PER_MSEC)
/* When such a spell last ended, 0 if there was none. */
static u64 long_higher_class_until_ns;

/* Longer than a switch between tasks takes. */
#define SWITCH_NS ((s64)(50 * NSEC_PER_USEC))

/*
 * A CPU that neither runs a task of ours nor idles is busy with a higher class: real-time, deadline or stop tasks, and in
 * partial mode every task that did not choose SCHED_EXT. So the time between our last task there and the next, or idleness, is
 * theirs, but for the microseconds of the switch itself.
 */
static __always_inline void ours_left(struct cpu_ctx *cpuc, u64 now)
{
	WRITE_ONCE(cpuc->higher_class_since_ns, now);
	cpuc->nr_reenqueued = 0;
}

static __always_inline void ours_returned(struct cpu_ctx *cpuc, u64 now)
{
	u64 since = cpuc->higher_class_since_ns;
	s64 spell;

	if (!since)
		return;
	spell = time_delta(now, since);
	if (spell > SWITCH_NS)
		WRITE_ONCE(cpuc->higher_class_ns, cpuc->higher_class_ns + spell);
	if (spell > (s64)LONG_HIGHER_CLASS_NS)
		WRITE_ONCE(long_higher_class_until_ns, now);
	WRITE_ONCE(cpuc->higher_class_since_ns, 0);
}

static __always_inline bool busy_with_higher_class(const struct cpu_ctx *cpuc, u64 now)
{
	u64 since = READ_ONCE(cpuc->higher_class_since_ns);

	return since && time_delta(now, since) > SWITCH_NS;
}

/* Time for which a higher class had the CPU, the current spell included. */
static __always_inline u64 cpu_higher_class_ns(const struct cpu_ctx *cpuc, u64 now)
{
	u64 since = READ_ONCE(cpuc->higher_class_since_ns);
	s64 spell = since ? time_delta(now, since) : 0;

	return READ_ONCE(cpuc->higher_class_ns) + (spell > 0 ? spell : 0);
}

#endif /* SCHERZO_HIGHER_CLASS_BPF_H */
