/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lifecycle.bpf.h: CPUs and tasks come and go, the scheduler starts and ends, and user space has CPUs kicked.
 */
#ifndef SCHERZO_LIFECYCLE_BPF_H
#define SCHERZO_LIFECYCLE_BPF_H

#include "count.bpf.h"
#include "credit.bpf.h"
#include "kin.bpf.h"
#include "degraded.bpf.h"
#include "higher_class.bpf.h"
#include "offline.bpf.h"
#include "park.bpf.h"
#include "performance.bpf.h"
#include "watchdog.bpf.h"

/*
 * The kernel does not say which cache a CPU has while it is offline or absent. One that comes later joins the LLC of
 * the nearest lower CPU of its NUMA node, or of the nearest higher one, and is taken for as fast: neighbours mostly share,
 * and the next load knows.
 */
VERIFIED_ONCE int adopt_llc(s32 new_cpu)
{
	struct cpu_ctx *newcomer = cpu_ctx(new_cpu);
	int node = __COMPAT_scx_bpf_cpu_node(new_cpu);
	s32 cpu;

	if (!newcomer || newcomer->llc_known)
		return 0;
	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc || !cpuc->llc_known || __COMPAT_scx_bpf_cpu_node(cpu) != node)
			continue;
		if (cpu > new_cpu && newcomer->llc_known)
			break;
		newcomer->llc = cpuc->llc;
		newcomer->slow = cpuc->slow;
		newcomer->llc_known = true;
	}
	return 0;
}

void BPF_STRUCT_OPS(scherzo_cpu_online, s32 cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc)
		return;
	adopt_llc(cpu);
	cpuc->online = true;
	choose_low_power_cpus();
}

/* An offline CPU gets no dispatch. */
void BPF_STRUCT_OPS(scherzo_cpu_offline, s32 cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc)
		return;
	cpuc->online = false;
	note_idle(cpuc, false);
	withdraw_cpu(cpuc, cpu);
	choose_low_power_cpus();
	drain_offline_cpu(cpu);
	kick_all(SCX_KICK_IDLE);
}

/*
 * Without memory for its context a task is scheduled by BPF alone, in arrival order: better than a fork that fails.
 * Sleepable, so that the memory may be waited for.
 */
s32 BPF_STRUCT_OPS_SLEEPABLE(scherzo_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct scherzo_control *page = control_page();
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *parent;
	struct task_ctx *parent_ctx;
	struct scherzo_slot *slot;
	struct flight *flight;
	u32 index = SCHERZO_NO_SLOT;

	if (!tctx)
		return 0;
	if (bpf_map_pop_elem(&free_slots, &index))
		index = SCHERZO_NO_SLOT;
	tctx->own_weight = weight_of(p);
	init_util(tctx);
	parent = args->fork ? bpf_get_current_task_btf() : NULL;
	parent_ctx = parent ? task_ctx(parent) : NULL;
	if (parent_ctx)
		split_credit(tctx, parent_ctx);
	tctx->slot = index;
	tctx->last_cpu = -1;
	tctx->wait_cpu = -1;
	slot = task_slot(tctx);
	flight = slot_flight(index);
	if (!page || !slot || !flight)
		return 0;
	/* Generations go on where the slot's last owner left off, so that a late dispatch of it fits no task. */
	tctx->generation = flight->word >> 1;
	slot->klass = SCHERZO_CLASS_UNKNOWN;
	slot->deadline_ns = 0;
	slot->classified_ns = 0;
	__sync_fetch_and_add(&page->nr_tasks, 1);
	return 0;
}

/* The task comes to us. */
void BPF_STRUCT_OPS(scherzo_enable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	tctx->charged_exec_ns = p->se.sum_exec_runtime;
	tctx->wait_since_ns = 0;
	tctx->parked_since_ns = 0;
	/* What it did in a higher class was no sleep. */
	tctx->slept_since_ns = 0;
}

/*
 * It goes to a higher class, perhaps while it waited here, as sound does that is made real-time; or it ends: the kernel calls this before
 * ops.exit_task. It does not call ops.dequeue for all that it takes from a DSQ.
 */
void BPF_STRUCT_OPS(scherzo_disable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	leave_dsq(tctx);
	forget_release(tctx);
	uncount_weight(tctx, clock_now());
}

void BPF_STRUCT_OPS(scherzo_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	u32 index;

	if (!page || !tctx)
		return;
	if (tctx->slot == SCHERZO_NO_SLOT)
		return;
	cancel_flight(tctx);
	index = tctx->slot;
	tctx->slot = SCHERZO_NO_SLOT;
	__sync_fetch_and_add(&page->nr_tasks, -1);
	/* User space need not hear of the end of a task of which it has never heard. */
	if (tctx->refreshed_ns)
		announce_exit(page, index, p->pid);
	bpf_map_push_elem(&free_slots, &index, 0);
}

VERIFIED_ONCE s32 create_dsqs(void)
{
	s32 err = scx_bpf_create_dsq(ENGINE_DSQ, -1);
	u32 index;

	bpf_for(index, 0, nr_cpu_slots) {
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_CPU, index), -1);
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_CPU_PROMPT, index), -1);
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_CPU_FAIR, index), -1);
	}
	bpf_for(index, 0, nr_llcs) {
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_INTERACTIVE, index), -1);
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_BATCH, index), -1);
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_FIFO, index), -1);
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_PROMPT, index), -1);
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_FAIR, index), -1);
	}
	return err;
}

/* Highest first, so that the lowest is taken first and the table stays compact. */
static int free_slot(u32 index, void *context)
{
	u32 slot = SCHERZO_NR_SLOTS - 1 - index;

	return bpf_map_push_elem(&free_slots, &slot, 0) ? 1 : 0;
}

VERIFIED_ONCE int note_online_cpus(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u64 now = clock_now();
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		cpuc->online = bpf_cpumask_test_cpu(cpu, online);
		note_idle(cpuc, cpuc->online);
		/* A higher class may have it already; if not, that shows at once. */
		ours_left(cpuc, now);
	}
	scx_bpf_put_cpumask(online);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(scherzo_init)
{
	s32 err;

	err = create_dsqs() ?: init_parks() ?: init_run_timers() ?: init_watchdog();
	if (err) {
		scx_bpf_error("cannot set up queues and timer: %d", err);
		return err;
	}
	bpf_loop(SCHERZO_NR_SLOTS, free_slot, NULL, 0);
	note_online_cpus();
	choose_low_power_cpus();
	return 0;
}

VERIFIED_ONCE u64 count_long_higher_class(u64 now)
{
	u64 nr = 0;
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);
		u64 since = cpuc ? READ_ONCE(cpuc->higher_class_since_ns) : 0;

		if (since && time_delta(now, since) > (s64)LONG_HIGHER_CLASS_NS)
			nr++;
	}
	return nr;
}

/* The kernel gives a starved scheduler up at once, but gets around to ending it only when there is a CPU again. */
#define EXIT_TAKES_NS (5000 * NSEC_PER_MSEC)

static __always_inline bool higher_class_until_now(u64 now)
{
	u64 until = READ_ONCE(long_higher_class_until_ns);

	return until && time_delta(now, until) < (s64)EXIT_TAKES_NS;
}

void BPF_STRUCT_OPS(scherzo_exit, struct scx_exit_info *ei)
{
	struct scherzo_control *page = control_page();
	u64 now = clock_now();

	UEI_RECORD(uei, ei);
	if (page) {
		WRITE_ONCE(page->nr_higher_class_cpus, count_long_higher_class(now) + higher_class_until_now(now));
		/* The engine reads what stands before this once it sees it. The atomic orders on every architecture. */
		__sync_lock_test_and_set(&page->exited, 1);
	}
	send_notice();
}

/* After a new control word: CPUs that sleep would otherwise sleep over waiting work. */
SEC("syscall")
int scherzo_kick_all(void *context)
{
	kick_all(SCX_KICK_IDLE);
	return 0;
}

/* Takes a CPU away from batch work, whichever it is, so that it dispatches. */
VERIFIED_ONCE int kick_victims(void)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (cpuc && try_preempt(cpuc)) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			count(SCHERZO_CNT_KICKED);
			return 1;
		}
	}
	return 0;
}

static u64 nr_urgent_seen;

/*
 * Under saturation the engine does not block, so what it has dispatched needs another CPU's ops.dispatch: an idle CPU's, or, if some
 * of them ask for preemption, one that runs batch work.
 */
SEC("syscall")
int scherzo_doorbell(void *context)
{
	struct scherzo_control *page = control_page();
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	/* Masks per node cannot be searched as a whole, and asking for it would end the scheduler. */
	s32 cpu = per_node_idle ? -1 : scx_bpf_pick_idle_cpu(online, 0);

	scx_bpf_put_cpumask(online);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		count(SCHERZO_CNT_KICKED);
	} else if (page && READ_ONCE(page->nr_urgent) != nr_urgent_seen) {
		nr_urgent_seen = READ_ONCE(page->nr_urgent);
		kick_victims();
	}
	return 0;
}

#endif /* SCHERZO_LIFECYCLE_BPF_H */
