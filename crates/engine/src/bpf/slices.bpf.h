/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * slices.bpf.h: slices that end when they are over.
 *
 * Problem. The kernel looks at slices at its ticks. At 100 Hz a slice of 1 ms lasts up to 10 ms, and where many wait, each round of
 * them takes that much longer.
 *
 * Approach. A timer of the CPU ends the slice, but only one that is much shorter than the distance of two ticks (timed_slice_us of the
 * control page; the setting slice_timer, which is about the kernel seat only), and only if a task waits. So an idle or lightly loaded
 * CPU never has such a timer. What is left of a slice that was interrupted may be short as well.
 *
 * Sources. HRTICK of kernel/sched/core.c; the slices of scx_eevdf, which end all by timer.
 *
 * Limits. Whether somebody waits is looked at when the slice begins: for one that comes later, it ends at a tick.
 */
#ifndef SCHERZO_SLICES_BPF_H
#define SCHERZO_SLICES_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "run_timer.bpf.h"
#include "seat.bpf.h"

/* Ticks are too far apart to end such a slice. */
static __always_inline bool is_timed(const struct scherzo_control *page, u64 slice_ns)
{
	return page && slice_ns < (u64)READ_ONCE(page->timed_slice_us) * NSEC_PER_USEC;
}

/* A slice begins that a timer is to end, if others wait. */
static __always_inline void time_slice(struct cpu_ctx *cpuc, s32 cpu, u64 slice_ns, u64 now)
{
	if (!has_seat_work(cpuc->llc, cpu))
		return;
	count_here(SCHERZO_CNT_SLICE_TIMERS);
	end_run_after(cpuc, cpu, slice_ns, now);
}

/* The slice of a task that goes on, as no other comes first. */
static __always_inline u64 next_slice_ns(const struct task_struct *p, const struct scherzo_control *page)
{
	u64 slice_ns = (u64)asked_slice_us(p) * NSEC_PER_USEC ?: default_slice_ns(page);

	return slice_ns > POLICY_SLICE_MAX_NS ? POLICY_SLICE_MAX_NS : slice_ns;
}

#endif /* SCHERZO_SLICES_BPF_H */
