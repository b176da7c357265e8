/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dsq.bpf.h: how tasks enter and leave the DSQs, and the count of those in each.
 */
#ifndef SCHERZO_DSQ_BPF_H
#define SCHERZO_DSQ_BPF_H

#include "count.bpf.h"
#include "state.bpf.h"

/*
 * How many tasks a DSQ holds, as far as we know: asking the kernel is a search in a hash table, and a dispatch would ask half
 * a dozen times. A task counts from before it enters until it runs, so the count may be too high for a moment. Too low it
 * gets in one race only (a dispatch overtaken by the kernel between its check and its effect), and then the watchdog timer
 * puts it right.
 */
static __always_inline s32 *cpu_count(struct cpu_ctx *cpuc, u32 kind)
{
	if (kind == DSQ_CPU)
		return &cpuc->nr_own;
	return kind == DSQ_CPU_PROMPT ? &cpuc->nr_own_prompt : &cpuc->nr_own_fair;
}

static __always_inline bool is_cpu_dsq(u32 kind)
{
	return kind == DSQ_CPU || kind == DSQ_CPU_PROMPT || kind == DSQ_CPU_FAIR;
}

static __always_inline s32 *llc_count(struct llc_ctx *llcx, u32 kind)
{
	switch (kind) {
	case DSQ_INTERACTIVE:
		return &llcx->nr_interactive;
	case DSQ_BATCH:
		return &llcx->nr_batch;
	case DSQ_PROMPT:
		return &llcx->nr_prompt;
	case DSQ_FAIR:
		return &llcx->nr_fair;
	default:
		return &llcx->nr_fifo;
	}
}

static __always_inline s32 dsq_count(u64 dsq_id)
{
	u32 kind = dsq_id >> 32, index = dsq_id;
	struct llc_ctx *llcx;
	struct cpu_ctx *cpuc;

	if (is_cpu_dsq(kind)) {
		cpuc = cpu_ctx(index);
		return cpuc ? READ_ONCE(*cpu_count(cpuc, kind)) : 0;
	}
	llcx = llc_ctx(index);
	return llcx ? READ_ONCE(*llc_count(llcx, kind)) : 0;
}

/* Adds to the count; verified once, since it is wanted in many places. */
VERIFIED_ONCE int change_count(u64 dsq_id, s32 by)
{
	u32 kind = dsq_id >> 32, index = dsq_id;
	struct llc_ctx *llcx;
	struct cpu_ctx *cpuc;

	if (is_cpu_dsq(kind)) {
		cpuc = cpu_ctx(index);
		if (cpuc)
			__sync_fetch_and_add(cpu_count(cpuc, kind), by);
		return 0;
	}
	llcx = llc_ctx(index);
	if (llcx)
		__sync_fetch_and_add(llc_count(llcx, kind), by);
	return 0;
}

static __always_inline void leave_dsq(struct task_ctx *tctx)
{
	u64 dsq_id = READ_ONCE(tctx->dsq_id);

	if (dsq_id && __sync_val_compare_and_swap(&tctx->dsq_id, dsq_id, 0) == dsq_id)
		change_count(dsq_id, -1);
}

static __always_inline void enter_dsq(struct task_ctx *tctx, u64 dsq_id)
{
	u64 before;

	change_count(dsq_id, 1);
	before = __sync_lock_test_and_set(&tctx->dsq_id, dsq_id);
	if (before)
		change_count(before, -1);
}

static __always_inline u32 nr_queued(enum dsq_kind kind, u32 index)
{
	s32 nr = dsq_count(DSQ_ID(kind, index));

	return nr > 0 ? nr : 0;
}

/*
 * Takes the first of a DSQ that may run on this CPU. A function of its own: from each place that has it in line the kernel would cut
 * out what is for older ones (scx's compat.bpf.h), and move the rest of the program.
 */
VERIFIED_ONCE int move_to_local(u64 dsq_id)
{
	return scx_bpf_dsq_move_to_local(dsq_id, 0);
}

static __always_inline bool take_from(enum dsq_kind kind, u32 index)
{
	return nr_queued(kind, index) && move_to_local(DSQ_ID(kind, index));
}

/* Puts a task into a DSQ by arrival, or first if the flags say so. A function of its own for the same reason. */
VERIFIED_ONCE int insert_by_arrival(struct task_struct *p __arg_trusted, u64 dsq_id, u64 slice_ns, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, dsq_id, slice_ns, enq_flags);
	return 0;
}

/* dsq_vtime at the head of an ordered DSQ; false if it is empty. */
VERIFIED_ONCE int head_vtime(u64 dsq_id, u64 *dsq_vtime)
{
	struct task_struct *head;
	bool found = false;

	if (!dsq_vtime || dsq_count(dsq_id) <= 0)
		return false;
	/* The verifier sees this from ops.init too, which sets the watchdog timer up and may sleep. */
	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(dsq_id);
	if (head) {
		*dsq_vtime = head->scx.dsq_vtime;
		found = true;
	}
	bpf_rcu_read_unlock();
	return found;
}

/* How many of a DSQ's tasks are looked at for one that this CPU may take. */
#define NR_FIRST_SAMPLES 8

/* The same of the first task that this CPU may take: others before it may run on a few CPUs only. False if there is none among the first. */
VERIFIED_ONCE int first_vtime(u64 dsq_id, s32 cpu, u64 *dsq_vtime)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	struct task_struct *p;
	int found = false;

	if (!dsq_vtime || !cpuc || dsq_count(dsq_id) <= 0)
		return false;
	cpuc->nr_looked_at = 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			*dsq_vtime = p->scx.dsq_vtime;
			found = true;
			break;
		}
		if (++cpuc->nr_looked_at >= NR_FIRST_SAMPLES)
			break;
	}
	bpf_rcu_read_unlock();
	return found;
}

/* Before a task enters an LLC's DSQ of batch work, see llc_ctx.batch_from_ns. */
static __always_inline void note_batch_deadline(u32 llc, u64 deadline_ns)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	u64 from_ns = llcx ? READ_ONCE(llcx->batch_from_ns) : 0;

	if (llcx && signed_delta(deadline_ns, from_ns) < 0)
		__sync_val_compare_and_swap(&llcx->batch_from_ns, from_ns, deadline_ns);
}

/* A task enters a CPU's DSQ_CPU_FAIR, perhaps as the first. */
static __always_inline void note_first_of_own(struct cpu_ctx *cpuc, const struct task_ctx *tctx)
{
	if (READ_ONCE(cpuc->nr_own_fair) > 0)
		return;
	WRITE_ONCE(cpuc->fair_head.weight, tctx->own_weight);
	WRITE_ONCE(cpuc->fair_head.since_ns, clock_now());
	WRITE_ONCE(cpuc->fair_head.pid, FIRST_UNKNOWN);
}

/* The task that begins to run may have been the first there. */
static __always_inline void note_next_of_own(struct cpu_ctx *cpuc, const struct task_ctx *tctx, u64 now)
{
	if (READ_ONCE(tctx->dsq_id) >> 32 != DSQ_CPU_FAIR)
		return;
	WRITE_ONCE(cpuc->fair_head.since_ns, now);
	WRITE_ONCE(cpuc->fair_head.pid, FIRST_UNKNOWN);
}

/*
 * Puts a task into one of our DSQs, at its dsq_vtime or, where arrival is the order, at the end. But where its CPU is going
 * offline perhaps no other may take it: what is in that one's local DSQ the kernel itself moves away, affinity or not.
 */
static __always_inline void insert(struct task_struct *p, struct task_ctx *tctx, u64 dsq_id, u64 slice_ns, u64 dsq_vtime,
				   u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && !READ_ONCE(cpuc->online)) {
		insert_by_arrival(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
		count(SCHERZO_CNT_OFFLINE);
		return;
	}
	if (cpuc && dsq_id >> 32 == DSQ_CPU_FAIR)
		note_first_of_own(cpuc, tctx);
	enter_dsq(tctx, dsq_id);
	if (dsq_id >> 32 == DSQ_FIFO) {
		insert_by_arrival(p, dsq_id, slice_ns, enq_flags);
		return;
	}
	if (dsq_id >> 32 == DSQ_BATCH)
		note_batch_deadline(dsq_id, dsq_vtime);
	scx_bpf_dsq_insert_vtime(p, dsq_id, slice_ns, dsq_vtime, enq_flags);
}

#endif /* SCHERZO_DSQ_BPF_H */
