/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * foreground.bpf.h: the application in front, which weighs more.
 *
 * Problem. The desktop knows which application somebody works with. systemd gives each a control group, but often without the
 * cpu controller: then the scheduler sees only a group further up, which other applications are in as well.
 *
 * Approach. The control page names a group of the default hierarchy, and by how much it weighs more. If it has the cpu
 * controller, its weight is raised where it is read (groups.bpf.h). If it has not, its tasks compete in the nearest group
 * around it that has, each with its own weight, and there each of them is raised: together they are worth so many times what
 * they would be, and the group around them gets no more than before. Groups are compared by their number, which the kernel uses
 * only once, so that a group that has been removed is nobody's.
 */
#ifndef SCHERZO_FOREGROUND_BPF_H
#define SCHERZO_FOREGROUND_BPF_H

#include "state.bpf.h"

/* Of the default hierarchy: the kernel's limit is higher, but nesting is never that deep. */
#define MAX_CGROUP_LEVELS 32

/* The number of the group in front, 0 if there is none. */
static __always_inline u64 foreground_cgroup(void)
{
	const struct scherzo_control *page = control_page();

	return page ? READ_ONCE(page->foreground_cgroup) : 0;
}

static __always_inline u32 raised_weight(u32 weight)
{
	const struct scherzo_control *page = control_page();

	return page ? (u64)weight * READ_ONCE(page->foreground_percent) / 100 ?: 1 : weight;
}

/* The group has the cpu controller, and is the one in front. */
static __always_inline bool is_foreground_group(const struct task_group *tg)
{
	u64 foreground = foreground_cgroup();

	return foreground && tg->css.cgroup && tg->css.cgroup->kn->id == foreground;
}

/*
 * The task is in the group in front, or in one within it. With `alone`, only if none of these has the cpu controller: the search
 * goes up to the task's own group of that controller, and mostly begins there.
 */
VERIFIED_ONCE int is_in_foreground(struct task_struct *p __arg_trusted, u64 foreground, bool alone)
{
	/* Pointers loaded after the cast are never trusted, so the verifier need not find out, see VERIFIED_ONCE. */
	const struct task_struct *task = bpf_core_cast(p, struct task_struct);
	const struct cgroup *cgroup, *own = NULL;
	u32 level;

	if (!bpf_core_field_exists(p->cgroups) || !bpf_core_field_exists(p->sched_task_group) || !task->cgroups)
		return false;
	cgroup = task->cgroups->dfl_cgrp;
	if (alone && task->sched_task_group)
		own = task->sched_task_group->css.cgroup;
	bpf_for(level, 0, MAX_CGROUP_LEVELS) {
		if (!cgroup || cgroup == own)
			break;
		if (cgroup->kn->id == foreground)
			return true;
		if (!cgroup->self.parent)
			break;
		cgroup = cgroup->self.parent->cgroup;
	}
	return false;
}

/* What the task weighs where it competes: more in front, if no group does that for it. */
static __always_inline u32 weight_in_foreground(struct task_struct *p, u32 weight)
{
	u64 foreground = foreground_cgroup();

	return foreground && is_in_foreground(p, foreground, true) ? raised_weight(weight) : weight;
}

/* The same where user space classifies each task by itself. */
static __always_inline u32 weight_without_groups(struct task_struct *p)
{
	u64 foreground = foreground_cgroup();

	return foreground && is_in_foreground(p, foreground, false) ? raised_weight(p->scx.weight) : p->scx.weight;
}

#endif /* SCHERZO_FOREGROUND_BPF_H */
