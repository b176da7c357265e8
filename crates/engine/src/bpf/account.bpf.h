/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * account.bpf.h: what a CPU notes when a task starts there.
 */
#ifndef SCHERZO_ACCOUNT_BPF_H
#define SCHERZO_ACCOUNT_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "preempt.bpf.h"

static __always_inline void record_wait(struct scherzo_cpu_stats *stats, const struct task_ctx *tctx, u32 klass, u64 now)
{
	s64 wait_us = time_delta(now, tctx->wait_since_ns) / (s64)NSEC_PER_USEC;
	u32 bucket;

	if (!tctx->wait_since_ns)
		return;
	/* scx's log2_u64() counts from one: it gives 1 for 1 us, as the buckets want it. */
	bucket = wait_us > 0 ? log2_u64(wait_us) : 0;
	if (bucket >= SCHERZO_NR_WAIT_BUCKETS)
		bucket = SCHERZO_NR_WAIT_BUCKETS - 1;
	stats->wait[klass & (SCHERZO_NR_CLASSES - 1)][bucket & (SCHERZO_NR_WAIT_BUCKETS - 1)]++;
}

static __always_inline void count_migration(struct task_ctx *tctx, const struct cpu_ctx *cpuc, s32 cpu)
{
	if (tctx->last_cpu == cpu)
		return;
	if (tctx->last_cpu >= 0)
		count(cpu_llc(tctx->last_cpu) == cpuc->llc ? SCHERZO_CNT_MIGRATED_LLC : SCHERZO_CNT_MIGRATED_FAR);
	tctx->last_cpu = cpu;
}

/* Interactive work begins here, or goes on. */
static __always_inline void note_burst(struct cpu_ctx *cpuc, const struct task_ctx *tctx, u64 now)
{
	WRITE_ONCE(cpuc->burst_weight, tctx->own_weight);
	WRITE_ONCE(cpuc->burst_use, policy_use_of_deadline(tctx->due_ns));
	WRITE_ONCE(cpuc->burst_since_ns, now - tctx->burst_ns);
	if (!tctx->burst_ns)
		note_brief(cpuc, tctx, now);
}

#endif /* SCHERZO_ACCOUNT_BPF_H */
