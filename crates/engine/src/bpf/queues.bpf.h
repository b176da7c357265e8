/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queues.bpf.h: how tasks enter and leave the dispatch queues, and the count of those in each.
 */
#ifndef SCHERZO_QUEUES_BPF_H
#define SCHERZO_QUEUES_BPF_H

/*
 * How many tasks a queue holds, as far as we know: asking the kernel is a search in a hash table, and a dispatch would ask
 * half a dozen times. A task counts from before it enters until it runs, so the count may be too high for a moment. Too
 * low it gets in one race only (a decision overtaken by the kernel between its check and its effect), and then the warden
 * puts it right.
 */
static __always_inline s32 queue_count(u64 queue)
{
	u32 kind = queue >> 32, index = queue;
	struct llc_ctx *domain;
	struct cpu_ctx *cpuc;

	if (kind == QUEUE_CPU) {
		cpuc = cpu_ctx(index);
		return cpuc ? READ_ONCE(cpuc->nr_own) : 0;
	}
	domain = llc_ctx(index);
	if (!domain)
		return 0;
	if (kind == QUEUE_INTERACTIVE)
		return READ_ONCE(domain->nr_interactive);
	return kind == QUEUE_BATCH ? READ_ONCE(domain->nr_batch) : READ_ONCE(domain->nr_fifo);
}

/* Adds to the count; verified once, since it is wanted in many places. */
VERIFIED_ONCE int change_count(u64 queue, s32 by)
{
	u32 kind = queue >> 32, index = queue;
	struct llc_ctx *domain;
	struct cpu_ctx *cpuc;

	if (kind == QUEUE_CPU) {
		cpuc = cpu_ctx(index);
		if (!cpuc)
			return 0;
		__sync_fetch_and_add(&cpuc->nr_own, by);
		return 0;
	}
	domain = llc_ctx(index);
	if (!domain)
		return 0;
	if (kind == QUEUE_INTERACTIVE)
		__sync_fetch_and_add(&domain->nr_interactive, by);
	else if (kind == QUEUE_BATCH)
		__sync_fetch_and_add(&domain->nr_batch, by);
	else
		__sync_fetch_and_add(&domain->nr_fifo, by);
	return 0;
}

static __always_inline void leave_queue(struct task_ctx *tctx)
{
	u64 queue = READ_ONCE(tctx->queue);

	if (queue && __sync_val_compare_and_swap(&tctx->queue, queue, 0) == queue)
		change_count(queue, -1);
}

static __always_inline void enter_queue(struct task_ctx *tctx, u64 queue)
{
	u64 before;

	change_count(queue, 1);
	before = __sync_lock_test_and_set(&tctx->queue, queue);
	if (before)
		change_count(before, -1);
}

/* Before a task enters a domain's queue of batch work, see llc_ctx.batch_from_ns. */
static __always_inline void note_batch_key(u32 llc, u64 key_ns)
{
	struct llc_ctx *domain = llc_ctx(llc);
	u64 from_ns = domain ? READ_ONCE(domain->batch_from_ns) : 0;

	if (domain && signed_delta(key_ns, from_ns) < 0)
		__sync_val_compare_and_swap(&domain->batch_from_ns, from_ns, key_ns);
}

/*
 * Puts a task into one of our queues, at its key or, where arrival is the order, at the end. But where its CPU is going
 * offline perhaps no other may take it: what is in that one's local queue the kernel itself moves away, affinity or not.
 */
static __always_inline void insert(struct task_struct *p, struct task_ctx *tctx, u64 queue, u64 slice_ns, u64 key_ns,
				   u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && !READ_ONCE(cpuc->online)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
		count(SCHERZO_CNT_OFFLINE);
		return;
	}
	enter_queue(tctx, queue);
	if (queue >> 32 == QUEUE_FIFO) {
		scx_bpf_dsq_insert(p, queue, slice_ns, enq_flags);
		return;
	}
	if (queue >> 32 == QUEUE_BATCH)
		note_batch_key(queue, key_ns);
	scx_bpf_dsq_insert_vtime(p, queue, slice_ns, key_ns, enq_flags);
}

#endif /* SCHERZO_QUEUES_BPF_H */
