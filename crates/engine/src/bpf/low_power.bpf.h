/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * low_power.bpf.h: which CPUs carry batch work in low-power mode, while the others sleep.
 */
#ifndef SCHERZO_LOW_POWER_BPF_H
#define SCHERZO_LOW_POWER_BPF_H

#include "control.bpf.h"
#include "preempt.bpf.h"

/* What a CPU that carries batch work is wanted for. */
enum low_power_use {
	LOW_POWER_QUEUE, /* tasks may be queued for it */
	LOW_POWER_IDLE, /* it idles, and is taken */
	LOW_POWER_PREEMPT, /* it runs batch work, and is taken from it */
};

/* The first CPU that carries batch work in low-power mode and that the task may use in this way; -1 if there is none. */
VERIFIED_ONCE s32 low_power_cpu(struct task_struct *p __arg_trusted, u32 use)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (!cpuc->low_power || !may_run_on(p, cpu))
			continue;
		if (use == LOW_POWER_QUEUE || (use == LOW_POWER_IDLE && scx_bpf_test_and_clear_cpu_idle(cpu)) ||
		    (use == LOW_POWER_PREEMPT && try_preempt(cpuc)))
			return cpu;
	}
	return -1;
}

/* The counts live in memory because the verifier would follow each of their values through the loop. */
static u32 nr_online, nr_ranked;

/* Goes on with the CPUs of one kind of core. */
VERIFIED_ONCE int rank_low_power_cpus(bool slow)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (cpuc->slow != slow)
			continue;
		cpuc->low_power = cpuc->online && (!nr_ranked || nr_ranked < nr_online / 4);
		if (cpuc->online)
			nr_ranked++;
	}
	return 0;
}

/* The CPUs that stay awake for batch work: the first quarter of those online, at least one, those of slow cores first. */
VERIFIED_ONCE int choose_low_power_cpus(void)
{
	struct scherzo_control *page = control_page();
	s32 cpu;

	if (!page)
		return -EINVAL;
	nr_online = 0;
	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (cpuc && cpuc->online)
			nr_online++;
	}
	nr_ranked = 0;
	if (cores_differ)
		rank_low_power_cpus(true);
	rank_low_power_cpus(false);
	page->nr_online_cpus = nr_online;
	note_cpus_per_llc(nr_online);
	return 0;
}

/* In low-power mode batch work does not wake sleeping CPUs, unless it may run on no other. */
static __always_inline bool stays_packed(struct task_struct *p, struct control_word word, u32 klass)
{
	return word.mode == SCHERZO_MODE_LOW_POWER && klass != SCHERZO_CLASS_INTERACTIVE &&
	       low_power_cpu(p, LOW_POWER_QUEUE) >= 0;
}

/* A task that computes in low-power mode, and that none of the CPUs may run that stay awake: it wakes its own. */
static __always_inline bool needs_sleeping_cpu(struct task_struct *p, struct control_word word, u32 klass)
{
	return word.mode == SCHERZO_MODE_LOW_POWER && klass != SCHERZO_CLASS_INTERACTIVE &&
	       low_power_cpu(p, LOW_POWER_QUEUE) < 0;
}

/* The LLC whose DSQ a task enters: its own, but in low-power one that has a CPU awake for it. */
static __always_inline u32 target_llc(struct task_struct *p, struct control_word word, u32 klass)
{
	s32 awake;

	if (word.mode == SCHERZO_MODE_LOW_POWER && klass != SCHERZO_CLASS_INTERACTIVE && nr_llcs > 1) {
		awake = low_power_cpu(p, LOW_POWER_QUEUE);
		if (awake >= 0)
			return cpu_llc(awake);
	}
	return cpu_llc(scx_bpf_task_cpu(p));
}

#endif /* SCHERZO_LOW_POWER_BPF_H */
