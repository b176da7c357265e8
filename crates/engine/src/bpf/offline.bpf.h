/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * offline.bpf.h: a CPU goes offline: its tasks have to leave.
 */
#ifndef SCHERZO_OFFLINE_BPF_H
#define SCHERZO_OFFLINE_BPF_H

#include "count.bpf.h"
#include "dsq.bpf.h"

/* An offline CPU that a task still waits for or belongs to, plus one; a dispatch moves it. */
static u32 stranded_cpu;

/* Moves those tasks of a DSQ that belong to an offline CPU to its local DSQ: the kernel takes it from there. */
VERIFIED_ONCE int push_off(u64 dsq_id, s32 cpu)
{
	struct task_struct *p;
	bool moved = false;

	if (scx_bpf_dsq_nr_queued(dsq_id) <= 0)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		struct task_ctx *tctx = task_ctx(p);
		u64 local = SCX_DSQ_LOCAL_ON | cpu;

		if (!tctx || scx_bpf_task_cpu(p) != cpu)
			continue;
		leave_dsq(tctx);
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, local, 0);
		count(SCHERZO_CNT_OFFLINE);
		moved = true;
	}
	bpf_rcu_read_unlock();
	/* Older kernels only link it there. */
	if (moved)
		scx_bpf_kick_cpu(cpu, 0);
	return 0;
}

/* What was to run on the CPU only, but belongs to another one, goes where any CPU of the LLC finds it. */
VERIFIED_ONCE int open_own_dsq(s32 cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	struct task_struct *p;

	if (!cpuc)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, DSQ_ID(DSQ_CPU, cpu), 0) {
		struct task_ctx *tctx = task_ctx(p);

		if (!tctx)
			continue;
		enter_dsq(tctx, DSQ_ID(DSQ_BATCH, cpuc->llc));
		note_batch_deadline(cpuc->llc, p->scx.dsq_vtime);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, DSQ_ID(DSQ_BATCH, cpuc->llc), 0);
		count(SCHERZO_CNT_OFFLINE);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * A CPU gets no dispatch from the moment it begins to go offline, and is not gone before all its tasks are. Perhaps no other
 * CPU may take them, and the kernel knows how to break an affinity: it pushes away what the CPU itself would run next.
 * Another CPU's dispatch may do this as well, for tasks that were queued in the last moment.
 */
VERIFIED_ONCE int drain_offline_cpu(s32 cpu)
{
	u32 llc, park;

	push_off(DSQ_ID(DSQ_CPU, cpu), cpu);
	push_off(DSQ_ID(DSQ_CPU_PROMPT, cpu), cpu);
	push_off(DSQ_ID(DSQ_CPU_FAIR, cpu), cpu);
	open_own_dsq(cpu);
	bpf_for(llc, 0, nr_llcs) {
		push_off(DSQ_ID(DSQ_INTERACTIVE, llc), cpu);
		push_off(DSQ_ID(DSQ_BATCH, llc), cpu);
		push_off(DSQ_ID(DSQ_FIFO, llc), cpu);
		push_off(DSQ_ID(DSQ_PROMPT, llc), cpu);
		push_off(DSQ_ID(DSQ_FAIR, llc), cpu);
	}
	bpf_for(park, 0, NR_PARKS) {
		push_off(DSQ_ID(DSQ_PARK, park), cpu);
	}
	return 0;
}

#endif /* SCHERZO_OFFLINE_BPF_H */
