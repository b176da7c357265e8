/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reenqueue.bpf.h: what waits in the local DSQ of a CPU that a higher class takes is put back, so that other CPUs can have it.
 */
#ifndef SCHERZO_REENQUEUE_BPF_H
#define SCHERZO_REENQUEUE_BPF_H

#include "higher_class.bpf.h"
#include "kind.bpf.h"

/*
 * How often a CPU's local DSQ is emptied at most while a higher class has the CPU. From 7.3 the kernel ends a scheduler of
 * which one task is re-enqueued more than 256 times without running (SCX_EXIT_ERROR_REENQ), and two real-time tasks that
 * wake each other switch that often in milliseconds. Once would do: what is put back goes to a DSQ of ours, the pinned
 * tasks to their CPU's, and nothing is sent to the local DSQ of such a CPU. The other times are for tasks that were on
 * their way there when the higher class came.
 */
#define NR_REENQUEUES_PER_SPELL 8

/*
 * A higher class took this CPU. What waits in its local DSQ would wait with it: put it back, so that other CPUs can have
 * it. The count starts again when one of our tasks stops running here or the CPU leaves idleness (ours_left()). It is this
 * CPU's own, and interrupts are off: no atomics.
 */
static __always_inline bool empties_local_dsq(struct cpu_ctx *cpuc, s32 cpu)
{
	if (!cpuc || cpuc->nr_reenqueued >= NR_REENQUEUES_PER_SPELL || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) <= 0)
		return false;
	cpuc->nr_reenqueued++;
	return true;
}

/* Up to 6.18 tasks can be put back from this callback only. Stop tasks are gone in microseconds. */
void BPF_STRUCT_OPS(scherzo_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (args->reason != SCX_CPU_PREEMPT_STOP && empties_local_dsq(cpu_ctx(cpu), cpu))
		scx_bpf_reenqueue_local();
}

/* The same from 6.19 on, where the callback above is on its way out. */
SEC("tp_btf/sched_switch")
int BPF_PROG(scherzo_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool ordinary = next->prio >= MAX_RT_PRIO && (!partial || next->policy == SCHED_EXT || !next->pid);
	s32 cpu;

	if (ordinary || (is_kthread(next) && next->prio == 0))
		return 0;
	cpu = bpf_get_smp_processor_id();
	if (empties_local_dsq(cpu_ctx(cpu), cpu))
		scx_bpf_reenqueue_local_from_anywhere();
	return 0;
}

#endif /* SCHERZO_REENQUEUE_BPF_H */
