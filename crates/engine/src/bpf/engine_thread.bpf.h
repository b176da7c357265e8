/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine_thread.bpf.h: where the engine's own thread runs.
 */
#ifndef SCHERZO_ENGINE_THREAD_BPF_H
#define SCHERZO_ENGINE_THREAD_BPF_H

#include "control.bpf.h"
#include "higher_class.bpf.h"
#include "preempt.bpf.h"

/* Any CPU that no higher class holds; -1 if there is none. */
VERIFIED_ONCE s32 free_of_higher_class(struct task_struct *p __arg_trusted)
{
	u64 now = clock_now();
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (cpuc && cpuc->online && !busy_with_higher_class(cpuc, now) && may_run_on(p, cpu))
			return cpu;
	}
	return -1;
}

/*
 * Chooses a CPU for the engine's own thread: an idle one, else one taken from batch work, else one that no higher class
 * holds. In low-power the CPU that called for it serves it, so that none wakes up. Says how to kick it.
 */
static s32 engine_cpu(struct task_struct *p, struct control_word word, u64 *kick_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cpuc = cpu_ctx(this_cpu);
	s32 cpu;

	*kick_flags = SCX_KICK_IDLE;
	if (word.mode != SCHERZO_MODE_LOW_POWER) {
		cpu = pick_idle_cpu(p, 0);
		if (cpu >= 0)
			return cpu;
	}
	*kick_flags = SCX_KICK_PREEMPT;
	cpu = preempt_cpu(p, this_cpu);
	if (cpu >= 0)
		return cpu;
	if (cpuc && !busy_with_higher_class(cpuc, clock_now()) && may_run_on(p, this_cpu))
		return this_cpu;
	cpu = free_of_higher_class(p);
	return cpu >= 0 ? cpu : this_cpu;
}

static __always_inline void make_room_for_engine(s32 cpu, u64 kick_flags)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && kick_flags & SCX_KICK_PREEMPT)
		WRITE_ONCE(cpuc->makes_room, true);
}

#endif /* SCHERZO_ENGINE_THREAD_BPF_H */
