/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dsq.bpf.h: how tasks enter and leave the dispatch queues, and the count of those in each.
 */
#ifndef SCHERZO_DSQ_BPF_H
#define SCHERZO_DSQ_BPF_H

#include "state.bpf.h"

/*
 * How many tasks a queue holds, as far as we know: asking the kernel is a search in a hash table, and a dispatch would ask
 * half a dozen times. A task counts from before it enters until it runs, so the count may be too high for a moment. Too
 * low it gets in one race only (a decision overtaken by the kernel between its check and its effect), and then the watchdog timer
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

static __always_inline s32 *llc_count(struct llc_ctx *domain, u32 kind)
{
	switch (kind) {
	case DSQ_INTERACTIVE:
		return &domain->nr_interactive;
	case DSQ_BATCH:
		return &domain->nr_batch;
	case DSQ_PROMPT:
		return &domain->nr_prompt;
	case DSQ_FAIR:
		return &domain->nr_fair;
	default:
		return &domain->nr_fifo;
	}
}

static __always_inline s32 dsq_count(u64 queue)
{
	u32 kind = queue >> 32, index = queue;
	struct llc_ctx *domain;
	struct cpu_ctx *cpuc;

	if (is_cpu_dsq(kind)) {
		cpuc = cpu_ctx(index);
		return cpuc ? READ_ONCE(*cpu_count(cpuc, kind)) : 0;
	}
	domain = llc_ctx(index);
	return domain ? READ_ONCE(*llc_count(domain, kind)) : 0;
}

/* Adds to the count; verified once, since it is wanted in many places. */
VERIFIED_ONCE int change_count(u64 queue, s32 by)
{
	u32 kind = queue >> 32, index = queue;
	struct llc_ctx *domain;
	struct cpu_ctx *cpuc;

	if (is_cpu_dsq(kind)) {
		cpuc = cpu_ctx(index);
		if (cpuc)
			__sync_fetch_and_add(cpu_count(cpuc, kind), by);
		return 0;
	}
	domain = llc_ctx(index);
	if (domain)
		__sync_fetch_and_add(llc_count(domain, kind), by);
	return 0;
}

static __always_inline void leave_dsq(struct task_ctx *tctx)
{
	u64 queue = READ_ONCE(tctx->dsq);

	if (queue && __sync_val_compare_and_swap(&tctx->dsq, queue, 0) == queue)
		change_count(queue, -1);
}

static __always_inline void enter_dsq(struct task_ctx *tctx, u64 queue)
{
	u64 before;

	change_count(queue, 1);
	before = __sync_lock_test_and_set(&tctx->dsq, queue);
	if (before)
		change_count(before, -1);
}

static __always_inline u32 nr_queued(enum dsq_kind kind, u32 index)
{
	s32 nr = dsq_count(DSQ_ID(kind, index));

	return nr > 0 ? nr : 0;
}

static __always_inline bool take_from(enum dsq_kind kind, u32 index)
{
	return nr_queued(kind, index) && scx_bpf_dsq_move_to_local(DSQ_ID(kind, index), 0);
}

/* Key at the head of an ordered queue; false if it is empty. */
VERIFIED_ONCE int head_vtime(u64 queue, u64 *deadline_ns)
{
	struct task_struct *head;
	bool found = false;

	if (!deadline_ns || dsq_count(queue) <= 0)
		return false;
	/* The verifier sees this from ops.init too, which sets the watchdog timer up and may sleep. */
	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(queue);
	if (head) {
		*deadline_ns = head->scx.dsq_vtime;
		found = true;
	}
	bpf_rcu_read_unlock();
	return found;
}

/* Before a task enters a domain's queue of batch work, see llc_ctx.batch_from_ns. */
static __always_inline void note_batch_deadline(u32 llc, u64 deadline_ns)
{
	struct llc_ctx *domain = llc_ctx(llc);
	u64 from_ns = domain ? READ_ONCE(domain->batch_from_ns) : 0;

	if (domain && signed_delta(deadline_ns, from_ns) < 0)
		__sync_val_compare_and_swap(&domain->batch_from_ns, from_ns, deadline_ns);
}

/*
 * Puts a task into one of our queues, at its key or, where arrival is the order, at the end. But where its CPU is going
 * offline perhaps no other may take it: what is in that one's local queue the kernel itself moves away, affinity or not.
 */
static __always_inline void insert(struct task_struct *p, struct task_ctx *tctx, u64 queue, u64 slice_ns, u64 deadline_ns,
				   u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && !READ_ONCE(cpuc->online)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
		count(SCHERZO_CNT_OFFLINE);
		return;
	}
	enter_dsq(tctx, queue);
	if (queue >> 32 == DSQ_FIFO) {
		scx_bpf_dsq_insert(p, queue, slice_ns, enq_flags);
		return;
	}
	if (queue >> 32 == DSQ_BATCH)
		note_batch_deadline(queue, deadline_ns);
	scx_bpf_dsq_insert_vtime(p, queue, slice_ns, deadline_ns, enq_flags);
}

#endif /* SCHERZO_DSQ_BPF_H */
