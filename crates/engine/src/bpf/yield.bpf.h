/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * yield.bpf.h: a task gives way by itself (sched_yield()).
 *
 * Problem. Games and their run-time environments wait by spinning, with a yield in each round. By default the kernel ends the
 * slice then, and asks for the next task: that would be the same one again for as long as it is behind the others in virtual
 * time, and its spinning would take half of a CPU from the task that it waits for.
 *
 * Approach. A task without credit goes behind the first that waits, but for no more than a slice: what it gives up then is gone,
 * as with EEVDF. One with credit gives way to the prompt only, which happens in any case. Where nothing waits it keeps its
 * slice, and no queue is looked at.
 */
#ifndef SCHERZO_YIELD_BPF_H
#define SCHERZO_YIELD_BPF_H

#include "control.bpf.h"
#include "seat.bpf.h"

/* Puts the task behind the first of a DSQ that is ordered by virtual runtime, but no later than that. */
static __always_inline void go_behind(struct task_ctx *tctx, u64 dsq_id, u64 latest)
{
	u64 head = 0;

	if (!head_vtime(dsq_id, &head) || signed_delta(head, tctx->vruntime) < 0)
		return;
	tctx->vruntime = signed_delta(head + 1, latest) < 0 ? head + 1 : latest;
}

/* `to` names a task with yield_to() only, which virtual machines use and this scheduler does not follow. */
bool BPF_STRUCT_OPS(scherzo_yield, struct task_struct *from, struct task_struct *to)
{
	const struct scherzo_control *page = control_page();
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	struct task_ctx *tctx;
	u64 latest;

	if (to || !page || !cpuc || is_engine(from))
		return false;
	if (!scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) && nothing_waits(cpuc))
		return false;
	tctx = task_ctx(from);
	if (tctx && !tctx->prompt && control_word(page).kernel_seat) {
		latest = tctx->vruntime + policy_virtual_ns(default_slice_ns(page), tctx->weight);
		go_behind(tctx, DSQ_ID(DSQ_FAIR, cpuc->llc), latest);
		go_behind(tctx, DSQ_ID(DSQ_CPU_FAIR, cpu), latest);
	}
	scx_bpf_task_set_slice(from, 0);
	return false;
}

#endif /* SCHERZO_YIELD_BPF_H */
