/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * performance.bpf.h: the frequency that a CPU asks for, where the governor goes by what the scheduler asks (schedutil).
 *
 * Problem. A CPU that always asks for its highest frequency uses power that nobody is served by.
 *
 * Approach. As the kernel's own load tracking does: the mean use of each CPU, and of each task, which takes it along to the CPU where
 * it wakes up. The CPU asks for what it has been used, and no less than for what its task uses, or has used by the end of its
 * bursts: the second burst of a kind does not begin at a low frequency. Waiting for a CPU counts as neither running nor sleeping.
 *
 * Time counts alike whatever the frequency was: at a low one a task runs for longer, so that the CPU asks for more. So a task that
 * needs a quarter of the highest frequency gets half of it, and one that computes all the time gets all.
 *
 * Sources. PELT and util_est of kernel/sched/fair.c. schedutil adds a quarter to what is asked for.
 */
#ifndef SCHERZO_PERFORMANCE_BPF_H
#define SCHERZO_PERFORMANCE_BPF_H

#include "control.bpf.h"
#include "state.bpf.h"

/* Set before loading: some CPU has the governor schedutil; else the verifier removes all of this. */
const volatile bool asks_for_performance;

/* What batch work may ask of a CPU's clock in low-power mode, of SCX_CPUPERF_ONE. */
#define LOW_POWER_PERFORMANCE (SCX_CPUPERF_ONE / 2)
/* What is asked for changes in such steps. */
#define PERFORMANCE_STEP (SCX_CPUPERF_ONE / 16)

static __always_inline void ask_for_performance(struct cpu_ctx *cpuc, const struct task_ctx *tctx, s32 cpu, u32 klass)
{
	u32 use = tctx->use > tctx->burst_use ? tctx->use : tctx->burst_use, wanted;
	const struct scherzo_control *page = control_page();

	if (use < cpuc->use)
		use = cpuc->use;
	wanted = policy_performance(use, SCX_CPUPERF_ONE, PERFORMANCE_STEP);
	if (page && klass == SCHERZO_CLASS_BATCH && control_word(page).mode == SCHERZO_MODE_LOW_POWER &&
	    wanted > LOW_POWER_PERFORMANCE)
		wanted = LOW_POWER_PERFORMANCE;
	if (cpuc->performance == wanted)
		return;
	cpuc->performance = wanted;
	scx_bpf_cpuperf_set(cpu, wanted);
}

/* The task has run until now, since it began or was looked at last. */
static __always_inline void note_use(struct task_ctx *tctx, struct cpu_ctx *cpuc, u64 now)
{
	u64 ran_ns = time_delta(now, cpuc->used_until_ns);

	cpuc->used_until_ns = now;
	cpuc->use = policy_use_ran(cpuc->use, ran_ns);
	tctx->use = policy_use_ran(tctx->use, ran_ns);
}

/* The task begins to run, on a CPU that had nothing to run since then. */
static __always_inline void begin_to_use(struct task_ctx *tctx, struct cpu_ctx *cpuc, s32 cpu, u32 klass, u64 now)
{
	if (!asks_for_performance)
		return;
	cpuc->use = policy_use_idled(cpuc->use, time_delta(now, cpuc->used_until_ns));
	cpuc->used_until_ns = now;
	if (tctx->use_ended_ns)
		tctx->use = policy_use_idled(tctx->use, time_delta(tctx->wait_since_ns ?: now, tctx->use_ended_ns));
	tctx->use_ended_ns = 0;
	ask_for_performance(cpuc, tctx, cpu, klass);
}

/* A tick: it still runs. */
static __always_inline void go_on_using(struct task_ctx *tctx, struct cpu_ctx *cpuc, s32 cpu, u32 klass, u64 now)
{
	note_use(tctx, cpuc, now);
	ask_for_performance(cpuc, tctx, cpu, klass);
}

/* It stops; if it is not runnable, its burst is over. */
static __always_inline void end_to_use(struct task_ctx *tctx, struct cpu_ctx *cpuc, u64 now, bool runnable)
{
	if (!asks_for_performance)
		return;
	note_use(tctx, cpuc, now);
	if (runnable)
		return;
	tctx->use_ended_ns = now;
	tctx->burst_use = policy_burst_use(tctx->burst_use, tctx->use);
}

#endif /* SCHERZO_PERFORMANCE_BPF_H */
