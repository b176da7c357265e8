/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kind.bpf.h: what kind of task it is, and what it is classified as.
 */
#ifndef SCHERZO_KIND_BPF_H
#define SCHERZO_KIND_BPF_H

#include "control.bpf.h"

static __always_inline bool is_engine(const struct task_struct *p)
{
	return p->pid == engine_pid;
}

static __always_inline bool is_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

#define TASK_INTERRUPTIBLE 0x1

/*
 * A program that goes to sleep now may wait for a person, a timer or a message. Otherwise it has been stopped, or waits for the machine:
 * for a disk, a page of memory, a lock of the kernel, or a child that uses its memory until it executes another program.
 */
static __always_inline bool sleeps_interruptibly(const struct task_struct *p)
{
	return p->__state & TASK_INTERRUPTIBLE || is_kthread(p);
}

static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1;
}

/*
 * The threads that free memory: the engine could wait for them, so they never wait for the engine.
 */
static __always_inline bool frees_memory(const struct task_struct *p)
{
	if (p->flags & (PF_KSWAPD | PF_KCOMPACTD))
		return true;
	return is_kthread(p) && p->comm[0] == 'k' && p->comm[1] == 'h' && p->comm[2] == 'u' && p->comm[3] == 'g';
}

/* What user space has classified a task as. */
static __always_inline u32 published_class(const struct task_ctx *tctx)
{
	const struct scherzo_slot *slot = task_slot(tctx);

	return slot ? READ_ONCE(slot->klass) : SCHERZO_CLASS_UNKNOWN;
}

/*
 * What a task is taken for: by its credit, in either seat. With a policy for study, one that was woken before user space ever
 * classified it counts as interactive, one that was forked as batch.
 */
static __always_inline u32 task_class(const struct task_ctx *tctx)
{
	u32 klass;

	if (!study_policy)
		return tctx->prompt ? SCHERZO_CLASS_INTERACTIVE : SCHERZO_CLASS_BATCH;
	klass = published_class(tctx);
	if (klass == SCHERZO_CLASS_INTERACTIVE || klass == SCHERZO_CLASS_BATCH)
		return klass;
	return tctx->woken ? SCHERZO_CLASS_INTERACTIVE : SCHERZO_CLASS_BATCH;
}

#endif /* SCHERZO_KIND_BPF_H */
