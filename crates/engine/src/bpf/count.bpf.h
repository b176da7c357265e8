/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * count.bpf.h: counters of the CPU that counts.
 */
#ifndef SCHERZO_COUNT_BPF_H
#define SCHERZO_COUNT_BPF_H

#include "state.bpf.h"

static __always_inline struct scherzo_cpu_stats *this_cpu_stats(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpu_stats, &cpu);
}

/* Verified once: the branches in here, inlined in dozens of places, took the verifier longer than all the rest. */
VERIFIED_ONCE int count_n(u32 counter, u64 n)
{
	struct scherzo_cpu_stats *stats = this_cpu_stats();

	if (stats && counter < SCHERZO_NR_COUNTERS)
		stats->counters[counter] += n;
	return 0;
}

static __always_inline void count(enum scherzo_counter counter)
{
	count_n(counter, 1);
}

/* Without the call, for what every switch counts. */
static __always_inline void count_here(enum scherzo_counter counter)
{
	struct scherzo_cpu_stats *stats = this_cpu_stats();

	if (stats)
		stats->counters[counter]++;
}

#endif /* SCHERZO_COUNT_BPF_H */
