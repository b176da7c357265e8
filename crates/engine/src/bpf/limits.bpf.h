/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * limits.bpf.h: bandwidth limits of control groups (cpu.max, cpu.max.burst): what a group may still run, and which tasks have
 * to wait.
 *
 * Problem. cpu.max belongs to the fair class: the kernel throttles its run queues, and nothing that sched_ext runs. A
 * container that is limited to half a CPU would take all of them.
 *
 * Approach. Each limited group has a balance (bandwidth.h). Running is charged to the task's group and to every limited group
 * above it; a task may run while all of them have something left. It is looked at where a task is enqueued
 * (scherzo_enqueue()) and where it would get a CPU without that (scherzo_select_cpu(), keep_running()). A task that slips
 * through, because it was in a DSQ or with user space when its group ran out, is sent back by ops.running. So no mode and no
 * policy has to know about limits.
 *   - What has to wait is parked (park.bpf.h).
 *   - A run ends when the balance does: by a timer of the CPU, as ticks are up to 10 ms apart. What is used beyond that is a debt.
 *   - Threads of the kernel, tasks that exit, the engine, and tasks that may not leave their CPU for a moment are never held up.
 *
 * Where limits are read. The kernel keeps quota, period and burst in task_group, where they are read with the group's weight,
 * at most every 100 ms (groups.bpf.h): of its bandwidth controller, or, in kernels that are built without that, what
 * sched_ext itself has noted (from 6.17). A group is known by its controller's number. A group with a limit is linked to the
 * next above that has one, so that a task in a group without any limit costs one look.
 *
 * Sources. Quota and burst: tg_set_cfs_bandwidth() and __refill_cfs_bandwidth_runtime() of kernel/sched/fair.c. A debt that is
 * carried on: the cpu.max of scx_lavd (Changwoo Min).
 *
 * Concurrency. Balances are changed by atomic addition. The CPU that swaps the beginning of the period adds the quota. A race
 * of that with a charge costs what was charged in that moment at most.
 *
 * Limits. As for weights: 4,095 groups, 16 levels. CPU time that tasks of higher classes use in the group is not charged.
 */
#ifndef SCHERZO_LIMITS_BPF_H
#define SCHERZO_LIMITS_BPF_H

#include "bandwidth.h"
#include "groups.bpf.h"
#include "idle.bpf.h"
#include "kind.bpf.h"
#include "run_timer.bpf.h"

/* RUNTIME_INF: no limit. */
#define NO_QUOTA (~0ULL)
/* If less than this is left, the run is ended by timer: the longest distance of two ticks. */
#define TIMED_RUN_NS (10 * NSEC_PER_MSEC)
/* No task is parked for longer than 10 s: this is before the last look. */
#define PARKED_MAX_NS (9900 * NSEC_PER_MSEC)

struct limit_ctx {
	u64 task_group; /* which one this is about; numbers are used again */
	u64 quota_ns; /* 0 is no limit */
	u64 period_ns;
	u64 burst_ns;
	u64 period_began_ns;
	s64 balance_ns;
	u32 above; /* the next group above with a limit, ROOT_GROUP if there is none */
	/* Tasks that have no other limit below this one: those that run, and those that were parked and have not run since. */
	s32 nr_running;
	s32 nr_released;
	u64 released_ns; /* when one of these was let go last */
} CACHELINE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_GROUPS);
	__type(key, u32);
	__type(value, struct limit_ctx);
} limit_ctxs SEC(".maps");

/* A limit has been seen. Until then nothing is looked at. */
static u32 limits_in_use CACHELINE;

static __always_inline struct limit_ctx *limit_ctx(u32 group)
{
	return group == ROOT_GROUP ? NULL : bpf_map_lookup_elem(&limit_ctxs, &group);
}

/* Copies the limit that the kernel has for a group; false if it has none. */
static __always_inline bool read_limit(struct limit_ctx *limit, const struct task_group *tg, u64 now)
{
	u64 quota_ns = NO_QUOTA, period_ns = 0, burst_ns = 0;

	if (bpf_core_field_exists(tg->cfs_bandwidth.quota)) {
		quota_ns = tg->cfs_bandwidth.quota;
		period_ns = tg->cfs_bandwidth.period;
		burst_ns = tg->cfs_bandwidth.burst;
	} else if (bpf_core_field_exists(tg->scx.bw_quota_us)) {
		quota_ns = tg->scx.bw_quota_us;
		if (quota_ns != NO_QUOTA)
			quota_ns *= NSEC_PER_USEC;
		period_ns = tg->scx.bw_period_us * NSEC_PER_USEC;
		burst_ns = tg->scx.bw_burst_us * NSEC_PER_USEC;
	}
	if (quota_ns == NO_QUOTA || !period_ns)
		quota_ns = 0;
	if (limit->task_group == (u64)tg && limit->quota_ns == quota_ns && limit->period_ns == period_ns &&
	    limit->burst_ns == burst_ns)
		return quota_ns;
	limit->task_group = (u64)tg;
	limit->period_ns = period_ns;
	limit->burst_ns = burst_ns;
	limit->period_began_ns = now;
	WRITE_ONCE(limit->balance_ns, quota_ns);
	WRITE_ONCE(limit->quota_ns, quota_ns);
	return quota_ns;
}

/* The groups that the task is in, from its own upwards: which have limits, and which is the next above each. */
VERIFIED_ONCE int read_limits(struct task_struct *p __arg_trusted, u32 number, u64 now)
{
	/* Pointers loaded after the cast are never trusted, so the verifier need not find out, see VERIFIED_ONCE. */
	const struct task_group *tg = bpf_core_cast(p, struct task_struct)->sched_task_group;
	u32 lowest = ROOT_GROUP, below = ROOT_GROUP, level;
	struct limit_ctx *limit;
	struct group_ctx *group;

	bpf_for(level, 0, MAX_KNOWN_STEPS) {
		u32 id;

		if (is_root(tg))
			break;
		id = is_known(tg) ? tg->css.id : ROOT_GROUP;
		limit = limit_ctx(id);
		if (limit && read_limit(limit, tg, now)) {
			limit = limit_ctx(below);
			if (limit)
				WRITE_ONCE(limit->above, id);
			else
				lowest = id;
			below = id;
		}
		tg = tg->parent;
	}
	limit = limit_ctx(below);
	if (limit)
		WRITE_ONCE(limit->above, ROOT_GROUP);
	group = group_ctx(number);
	if (group) {
		group->limits_read_ns = now;
		WRITE_ONCE(group->limiter, lowest);
	}
	if (lowest != ROOT_GROUP)
		WRITE_ONCE(limits_in_use, 1);
	return 0;
}

/* The lowest group with a limit, of this one and those above it; ROOT_GROUP if there is none. */
static __always_inline u32 limiter_of_group(u32 number)
{
	const struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

	return group ? READ_ONCE(group->limiter) : ROOT_GROUP;
}

/* The same of the groups that the task is in. */
static __always_inline u32 limiter_of(struct task_struct *p, u64 now)
{
	if (!READ_ONCE(limits_in_use) || !bpf_core_field_exists(p->sched_task_group) || is_kthread(p) || is_engine(p))
		return ROOT_GROUP;
	return limiter_of_group(group_of(p, now));
}

/* Adds what the periods brought that are over. */
static __always_inline void refill(struct limit_ctx *limit, u64 now)
{
	u64 began_ns = READ_ONCE(limit->period_began_ns), nr = bandwidth_periods(began_ns, now, limit->period_ns);
	s64 balance_ns;

	if (!nr || __sync_val_compare_and_swap(&limit->period_began_ns, began_ns, began_ns + nr * limit->period_ns) != began_ns)
		return;
	balance_ns = READ_ONCE(limit->balance_ns);
	__sync_fetch_and_add(&limit->balance_ns,
			     bandwidth_refill(balance_ns, nr, limit->quota_ns, limit->period_ns, limit->burst_ns) - balance_ns);
}

/* When the group can run again, 0 if it can now. */
static __always_inline u64 refilled_at_ns(const struct limit_ctx *limit)
{
	u64 nr = bandwidth_periods_to_wait(READ_ONCE(limit->balance_ns), limit->quota_ns);

	return nr ? READ_ONCE(limit->period_began_ns) + nr * limit->period_ns : 0;
}

/* When the last of the groups from this one upwards has something left to run, 0 if all have. */
VERIFIED_ONCE u64 held_up_until_ns(u32 limiter, u64 now)
{
	u64 until_ns = 0;
	u32 level;

	bpf_for(level, 0, MAX_GROUP_LEVELS) {
		struct limit_ctx *limit = limit_ctx(limiter);
		u64 at_ns;

		if (!limit || !limit->quota_ns)
			break;
		refill(limit, now);
		at_ns = refilled_at_ns(limit);
		if (at_ns > until_ns)
			until_ns = at_ns;
		limiter = limit->above;
	}
	return until_ns;
}

/* How many run in the groups above is not counted: a guess is as good, since what is used beyond a balance is a debt. */
#define NR_RUNNING_ABOVE 4

/* For how long a task of the group may run, if all that run there go on as well. */
VERIFIED_ONCE u64 may_run_for_ns(u32 limiter)
{
	u64 least_ns = ~0ULL;
	u32 level;

	bpf_for(level, 0, MAX_GROUP_LEVELS) {
		const struct limit_ctx *limit = limit_ctx(limiter);
		u64 each_ns;

		if (!limit || !limit->quota_ns)
			break;
		each_ns = bandwidth_each_ns(READ_ONCE(limit->balance_ns), level ? NR_RUNNING_ABOVE : READ_ONCE(limit->nr_running));
		if (each_ns < least_ns)
			least_ns = each_ns;
		limiter = limit->above;
	}
	return least_ns;
}

/* Takes what was run from the group and those above. */
VERIFIED_ONCE int charge_limits(u32 limiter, u64 ran_ns)
{
	u32 level;

	bpf_for(level, 0, MAX_GROUP_LEVELS) {
		struct limit_ctx *limit = limit_ctx(limiter);

		if (!limit)
			break;
		__sync_fetch_and_add(&limit->balance_ns, -(s64)ran_ns);
		limiter = limit->above;
	}
	return 0;
}

/* These are never parked: they may hold a lock that others wait for, or would be put on their CPU again at once. */
static __always_inline bool is_exempt(const struct task_struct *p)
{
	const struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));

	return p->flags & PF_EXITING || may_not_migrate(p, 0) || !cpuc || !READ_ONCE(cpuc->online);
}

/* The task has to wait until a group of it has something left to run, of this one and those above it. */
static __always_inline bool is_held_up(struct task_struct *p, const struct task_ctx *tctx, u32 limiter, u64 now)
{
	return limiter != ROOT_GROUP && !tctx->overruns && held_up_until_ns(limiter, now) && !is_exempt(p);
}

/* Has the run of a task end when its groups have nothing left, if that is soon. */
static __always_inline void time_run(const struct task_ctx *tctx, struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	u64 run_ns = tctx->overruns ? BANDWIDTH_RUN_MIN_NS : may_run_for_ns(tctx->limiter);

	if (run_ns < TIMED_RUN_NS)
		end_run_after(cpuc, cpu, run_ns, now);
}

/*
 * Takes from the groups what the kernel has charged the task since the last time, as credit is (see uncharged_ns()): a limit is
 * about that account, and our own clock runs on in interrupts, and stops before the next task has been picked.
 */
static __always_inline void charge_run(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 sum_exec_ns = p->se.sum_exec_runtime;
	s64 ran_ns = signed_delta(sum_exec_ns, tctx->limits_charged_exec_ns);

	tctx->limits_charged_exec_ns = sum_exec_ns;
	if (ran_ns > 0)
		charge_limits(tctx->limiter, ran_ns);
}

/* The run of a task has lasted as long as its groups allow. */
static __always_inline bool has_run_out(struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	if (tctx->overruns)
		return time_delta(now, tctx->started_ns) >= (s64)BANDWIDTH_RUN_MIN_NS;
	return held_up_until_ns(tctx->limiter, now) && !is_exempt(p);
}

/* Whether the running task may go on as far as limits are concerned, when it is asked for at the end of a slice. */
VERIFIED_ONCE int may_go_on(struct task_struct *p __arg_trusted, u64 now)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *tctx = task_ctx(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!tctx || !cpuc || tctx->limiter == ROOT_GROUP)
		return true;
	charge_run(p, tctx);
	if (has_run_out(p, tctx, now))
		return false;
	time_run(tctx, cpuc, cpu, now);
	return true;
}

/*
 * A task that wakes must wait for its groups; then it gets no CPU directly. By the group where it was weighed last, which it is each
 * time that it begins to run: one that was moved while it slept runs once as before.
 */
VERIFIED_ONCE int waits_for_limit(struct task_struct *p __arg_trusted, const struct task_ctx *tctx, u64 now)
{
	return tctx && !is_kthread(p) && is_held_up(p, tctx, limiter_of_group(tctx->group), now);
}

#endif /* SCHERZO_LIMITS_BPF_H */
