/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * slices.bpf.h: slices that end when they are over.
 *
 * Problem. The kernel looks at slices at its ticks. At 250 Hz a slice of 1 ms lasts up to 4 ms, and where many wait, each round of
 * them takes that much longer.
 *
 * Approach. A timer of the CPU ends the slice, but only one that is much shorter than the distance of two ticks (timed_slice_ns of the
 * control page; the setting slice_timer), and only if a task waits that would be picked then. So an idle or lightly loaded CPU
 * never has such a timer.
 *
 * Sources. HRTICK of kernel/sched/core.c; the slices of scx_eevdf, which end all by timer.
 *
 * Limits. Only where BPF follows the policy by itself. Whether somebody waits is looked at when the slice begins: for one that comes later, it ends at a tick.
 */
#ifndef SCHERZO_SLICES_BPF_H
#define SCHERZO_SLICES_BPF_H

#include "run_timer.bpf.h"
#include "seat.bpf.h"

/* A task waits that will be due before this one once it has run for so long. */
static __always_inline bool is_awaited(const struct task_ctx *tctx, u32 llc, s32 cpu, u64 run_ns)
{
	u64 vruntime = tctx->vruntime + policy_virtual_ns(run_ns, tctx->weight);

	return nr_queued(DSQ_PROMPT, llc) || nr_queued(DSQ_CPU_PROMPT, cpu) || is_due_before(DSQ_FAIR, llc, vruntime) ||
	       is_due_before(DSQ_CPU_FAIR, cpu, vruntime);
}

VERIFIED_ONCE int end_slice_by_timer(struct task_ctx *tctx, struct cpu_ctx *cpuc, s32 cpu, u64 slice_ns, u64 now)
{
	if (!tctx || !cpuc || !is_awaited(tctx, cpuc->llc, cpu, slice_ns))
		return 0;
	count(SCHERZO_CNT_SLICE_TIMERS);
	return end_run_after(cpuc, cpu, slice_ns, now);
}

/* A slice begins. Turns against a task's weight end by timer whatever the setting: by a tick it would have many times as much. */
static __always_inline void time_slice(const struct scherzo_control *page, struct task_ctx *tctx, struct cpu_ctx *cpuc, s32 cpu,
				       u64 slice_ns, u64 now)
{
	bool timed = tctx->timed;

	tctx->timed = false;
	if (timed || (page && slice_ns < READ_ONCE(page->timed_slice_ns)))
		end_slice_by_timer(tctx, cpuc, cpu, slice_ns, now);
}

#endif /* SCHERZO_SLICES_BPF_H */
