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
 * A new task is taken for one that uses half of a CPU, until its first bursts tell.
 *
 * Time counts alike whatever the frequency was: at a low one a task runs for longer, so that the CPU asks for more. So a task that
 * needs a quarter of the highest frequency gets half of it, and one that computes all the time gets all.
 *
 * Sources. PELT and util_est of kernel/sched/fair.c. schedutil adds a quarter to what is asked for.
 *
 * Limits. Fast and slow cores count alike: a task that moves to a slow one asks there for what it used on a fast one, until it has run.
 * A governor that can be had only after loading is not noticed.
 */
#ifndef SCHERZO_PERFORMANCE_BPF_H
#define SCHERZO_PERFORMANCE_BPF_H

#include "control.bpf.h"
#include "kind.bpf.h"
#include "state.bpf.h"

/* Set before loading: some CPU can have the governor schedutil; else the verifier removes all of this. */
const volatile bool asks_for_performance;

/* What batch work may ask of a CPU's clock in low-power mode, of SCX_CPUPERF_ONE. */
#define LOW_POWER_PERFORMANCE (SCX_CPUPERF_ONE / 2)
/* What is asked for changes in such steps. */
#define PERFORMANCE_STEP (SCX_CPUPERF_ONE / 16)

static __always_inline void ask_for_performance(struct cpu_ctx *cpuc, const struct task_ctx *tctx, s32 cpu, u32 klass)
{
	u32 util = tctx->util > tctx->burst_util ? tctx->util : tctx->burst_util, wanted;
	const struct scherzo_control *page = control_page();

	if (util < cpuc->util)
		util = cpuc->util;
	wanted = policy_performance(util, SCX_CPUPERF_ONE, PERFORMANCE_STEP);
	if (page && klass == SCHERZO_CLASS_BATCH && control_word(page).mode == SCHERZO_MODE_LOW_POWER &&
	    wanted > LOW_POWER_PERFORMANCE)
		wanted = LOW_POWER_PERFORMANCE;
	if (cpuc->performance == wanted)
		return;
	cpuc->performance = wanted;
	scx_bpf_cpuperf_set(cpu, wanted);
}

/* The task has run until now, since it began or was looked at last. */
static __always_inline void note_util(struct task_ctx *tctx, struct cpu_ctx *cpuc, u64 now)
{
	u64 ran_ns = time_delta(now, cpuc->util_until_ns);

	cpuc->util_until_ns = now;
	cpuc->util = policy_util_ran(cpuc->util, ran_ns);
	tctx->util = policy_util_ran(tctx->util, ran_ns);
}

/* Nothing is known of the task yet. */
static __always_inline void init_util(struct task_ctx *tctx)
{
	tctx->burst_util = POLICY_UTIL_ALL / 2;
}

/* The task begins to run, on a CPU that had nothing to run since then. */
static __always_inline void begin_util(struct task_ctx *tctx, struct cpu_ctx *cpuc, s32 cpu, u32 klass, u64 now)
{
	if (!asks_for_performance)
		return;
	cpuc->util = policy_util_idled(cpuc->util, time_delta(now, cpuc->util_until_ns));
	cpuc->util_until_ns = now;
	if (tctx->util_ended_ns)
		tctx->util = policy_util_idled(tctx->util, time_delta(tctx->wait_since_ns ?: now, tctx->util_ended_ns));
	tctx->util_ended_ns = 0;
	ask_for_performance(cpuc, tctx, cpu, klass);
}

/* A tick: it still runs. */
static __always_inline void update_util(struct task_struct *p, struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	note_util(tctx, cpuc, now);
	ask_for_performance(cpuc, tctx, cpu, task_class(tctx));
}

/* It stops; if it is not runnable, its burst is over. */
static __always_inline void end_util(struct task_ctx *tctx, struct cpu_ctx *cpuc, u64 now, bool runnable)
{
	if (!asks_for_performance)
		return;
	note_util(tctx, cpuc, now);
	if (runnable)
		return;
	tctx->util_ended_ns = now;
	tctx->burst_util = policy_burst_util(tctx->burst_util, tctx->util);
}

#endif /* SCHERZO_PERFORMANCE_BPF_H */
