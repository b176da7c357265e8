/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kin.bpf.h: credit between parents and children: a new task has a part of its parent's, what is left goes back at its end, and a task
 * that its parents wait for goes on with theirs. The sum stays what it was.
 */
#ifndef SCHERZO_KIN_BPF_H
#define SCHERZO_KIN_BPF_H

#include "credit.bpf.h"

/*
 * Charges what a task that runs right now, on this CPU, has run so far, and returns that: by our clock, as the kernel's account is of
 * the last tick or switch. What it is charged here is taken off then.
 */
static __always_inline u64 charge_current(struct task_ctx *tctx)
{
	u64 now = clock_now();
	s64 ran_ns = tctx->charged_until_ns ? time_delta(now, tctx->charged_until_ns) : 0;

	if (ran_ns <= 0)
		return 0;
	tctx->charged_until_ns = now;
	tctx->charged_exec_ns += ran_ns;
	charge_for(tctx, ran_ns);
	return ran_ns;
}

/* Where the task is in virtual time, or where those of its children were that have ended, if that is further. */
static __always_inline u64 furthest_place(const struct task_ctx *tctx)
{
	u64 vacated = READ_ONCE(tctx->vacated_vruntime);

	return READ_ONCE(tctx->nr_vacated) && signed_delta(vacated, tctx->vruntime) > 0 ? vacated : tctx->vruntime;
}

/* Where a new child begins: in the place of one that has ended, if there is any. */
static __always_inline u64 take_place(struct task_ctx *parent)
{
	u64 vruntime = furthest_place(parent);

	if (READ_ONCE(parent->nr_vacated))
		__sync_fetch_and_sub(&parent->nr_vacated, 1);
	return vruntime;
}

/* Where this child stopped, as a place of its parent. */
static __always_inline u64 place_left_to(const struct task_ctx *parent, const struct task_ctx *child)
{
	const struct llc_ctx *from = llc_ctx(child->llc), *to = llc_ctx(parent->llc);
	s64 ahead_ns = from ? signed_delta(furthest_place(child), READ_ONCE(from->clock)) : 0;

	if (ahead_ns > 0)
		ahead_ns = policy_ahead_in_place_of(ahead_ns, parent->weight, child->weight);
	return (to ? READ_ONCE(to->clock) : 0) + ahead_ns;
}

/*
 * A new task has half of what its parent has left, or owes as much as its parent, and has its place in virtual time: forking makes no
 * credit, and no lag.
 */
VERIFIED_ONCE int split_credit(struct task_ctx *child, struct task_ctx *parent)
{
	u64 unnoted_ns;
	s64 half_ns;

	if (!child || !parent)
		return 0;
	/* Up to when its parent has been charged is about now. */
	child->tried_ns = parent->charged_until_ns - (POLICY_TRIAL_PERIOD_NS - POLICY_FIRST_TRIAL_NS);
	charge_current(parent);
	child->use = parent->use;
	/* What those have used that have ended since the parent woke. */
	unnoted_ns = child->use.children_vran_ns - child->use.noted_children_vran_ns;
	child->use.of_fair.ran_ns += unnoted_ns;
	child->use.of_all.ran_ns += unnoted_ns;
	child->use.children_vran_ns = 0;
	child->use.noted_children_vran_ns = 0;
	half_ns = parent->credit_ns > 0 ? parent->credit_ns / 2 : 0;
	child->credit_ns = parent->credit_ns > 0 ? half_ns : parent->credit_ns;
	parent->credit_ns -= half_ns;
	child->mean_burst_ns = parent->mean_burst_ns;
	child->due_ns = 0;
	child->prompt = parent->prompt && half_ns > 0;
	child->vruntime = take_place(parent);
	child->llc = parent->llc;
	parent->waits_for_child = true;
	return 0;
}

/* What a child that ends has run for counts as used by its parent, and what its own children have run for that have ended. */
static __always_inline void leave_use(struct task_ctx *parent, const struct task_ctx *child)
{
	u64 vran_ns = policy_use_of_child(child->charged_exec_ns, child->weight) + READ_ONCE(child->use.children_vran_ns);

	__sync_fetch_and_add(&parent->use.children_vran_ns, vran_ns);
}

/*
 * The task has been woken by one that ends. If that is a child of its own, what it waited for was its own work, and no sleep: a
 * loop of fork and wait would otherwise earn twice what it uses. It gets back what the child has left of its credit, or owes, has used
 * what the child has used beside others, and goes on in virtual time where the child stopped.
 */
VERIFIED_ONCE int inherit_from_child(struct task_struct *p __arg_trusted, struct task_struct *child __arg_trusted)
{
	struct task_ctx *tctx, *child_ctx;
	u64 ran_ns, vruntime;

	if (child->real_parent->tgid != p->tgid)
		return 0;
	tctx = task_ctx(p);
	child_ctx = task_ctx(child);
	if (!tctx || !child_ctx)
		return 0;
	tctx->slept_since_ns = 0;
	ran_ns = charge_current(child_ctx);
	/* One that ends between two ticks is charged here for nearly all that it has run. */
	if (ran_ns)
		change_lead(child_ctx->llc, ran_ns, child_ctx);
	/* What the parent owed itself the child owed from the beginning. */
	tctx->credit_ns = policy_credit_earned(tctx->credit_ns > 0 ? tctx->credit_ns : 0, child_ctx->credit_ns);
	child_ctx->credit_ns = 0;
	leave_use(tctx, child_ctx);
	child_ctx->left_place = true;
	vruntime = place_left_to(tctx, child_ctx);
	if (signed_delta(vruntime, tctx->vruntime) > 0)
		tctx->vruntime = vruntime;
	return 0;
}

/* As in the kernel's include/linux/sched.h. */
#define EXIT_ZOMBIE 0x20

/*
 * A task has left its CPU for good, and its end has not woken its parent: that one waits for a CPU itself, as a driver does whose compiler
 * ends while many others wait, or it has more to do than to wait. The task's place in virtual time is for the next one that its parent
 * forks; of several, their average for as many. A maker of brief programs would otherwise begin each of them where it began the first,
 * before what others have been owed since: jobs of a millisecond left a hog 7 % of a CPU.
 *
 * While the task is a zombie its parent is there, and that is looked at after the parent has been read.
 */
VERIFIED_ONCE int leave_place(struct task_struct *p __arg_trusted, struct task_ctx *tctx)
{
	struct task_struct *parent = p->real_parent;
	struct task_ctx *parent_ctx;
	u64 vruntime, vacated;
	u32 nr_vacated;

	if (!tctx || !parent || tctx->left_place || READ_ONCE(p->exit_state) != EXIT_ZOMBIE)
		return 0;
	parent_ctx = task_ctx(parent);
	if (!parent_ctx)
		return 0;
	vruntime = place_left_to(parent_ctx, tctx);
	nr_vacated = __sync_fetch_and_add(&parent_ctx->nr_vacated, 1);
	vacated = nr_vacated ? READ_ONCE(parent_ctx->vacated_vruntime) : parent_ctx->vruntime;
	WRITE_ONCE(parent_ctx->vacated_vruntime, vacated + signed_delta(vruntime, vacated) / (s64)(nr_vacated + 1));
	return 0;
}

/* Between a program that was started and who waits for all of it are a shell, and what that starts. */
#define MAX_WAITING_PARENTS 3

/*
 * A prompt task that runs has little credit left. If its parent waits for it, what it does is its parent's work: it goes on with what
 * the parent has left, or the parent's parent that waits in turn. The sum stays what it was, and the rest goes back when the task
 * ends. Without that a program that is started, of several processes, would have used up its part while who waits for it keeps half. A
 * parent that sleeps is taken to wait for its children if only their ends have woken it since it forked.
 *
 * Called at ticks only: in charge(), it would be verified with each program that charges a task, a tenth of the time to load.
 */
VERIFIED_ONCE int borrow_from_parents(struct task_struct *p __arg_trusted, struct task_ctx *tctx)
{
	struct task_struct *parent = p->real_parent;
	u32 distance;

	/* Who has been reaped may have a parent that is gone. */
	if (!tctx || p->flags & PF_EXITING)
		return 0;
	for (distance = 0; distance < MAX_WAITING_PARENTS; distance++) {
		struct task_ctx *parent_ctx = parent ? task_ctx(parent) : NULL;
		s64 credit_ns;

		if (!parent_ctx || !parent_ctx->waits_for_child || !READ_ONCE(parent_ctx->slept_since_ns) ||
		    parent_ctx->group != tctx->group)
			break;
		credit_ns = READ_ONCE(parent_ctx->credit_ns);
		if (credit_ns > 0 && __sync_val_compare_and_swap(&parent_ctx->credit_ns, credit_ns, 0) == credit_ns) {
			tctx->credit_ns += credit_ns;
			break;
		}
		parent = parent->real_parent;
	}
	return 0;
}

#endif /* SCHERZO_KIN_BPF_H */
