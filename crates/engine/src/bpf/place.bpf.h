/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * place.bpf.h: which CPU is woken for a task that was queued.
 */
#ifndef SCHERZO_PLACE_BPF_H
#define SCHERZO_PLACE_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "dsq.bpf.h"
#include "kind.bpf.h"
#include "low_power.bpf.h"

/* Wakes a CPU for a task that was just queued for its LLC; false if none sleeps that may take it. */
VERIFIED_ONCE int kick_idle_for(struct task_struct *p __arg_trusted, u64 bits, u32 klass)
{
	struct control_word word = word_of(bits);
	s32 cpu;

	if (READ_ONCE(nr_idle) <= 0)
		return false;
	if (stays_packed(p, word, klass))
		cpu = low_power_cpu(p, LOW_POWER_IDLE);
	else if (cores_differ || word.own_idle)
		cpu = find_idle_cpu(p, scx_bpf_task_cpu(p), bits);
	else
		cpu = pick_idle_cpu(p, 0);
	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

VERIFIED_ONCE int kick_all(u64 flags)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (!cpuc->online)
			continue;
		scx_bpf_kick_cpu(cpu, flags);
		count(SCHERZO_CNT_KICKED);
	}
	return 0;
}

/*
 * Wakes a CPU for a task that was queued as this class: one that idles, else one that is taken from batch work if it
 * may be.
 */
static __always_inline void kick_queued(struct task_struct *p, struct control_word word, u32 klass, bool preempt)
{
	s32 cpu;

	if (klass == SCHERZO_CLASS_KERNEL || kick_idle_for(p, word_bits(word), klass) || !preempt || !word.preemption)
		return;
	cpu = preempt_cpu(p, scx_bpf_task_cpu(p));
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		count(SCHERZO_CNT_PREEMPT);
	}
}

#endif /* SCHERZO_PLACE_BPF_H */
