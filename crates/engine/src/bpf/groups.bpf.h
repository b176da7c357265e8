/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * groups.bpf.h: shares of control groups.
 *
 * Problem. cpu.weight divides CPU time among siblings of a tree: groups, and tasks that are directly in a group beside its
 * child groups. One virtual runtime per LLC knows only tasks.
 *
 * Approach. The tree is flattened, as scx_flatcg does it: a task is worth its own weight, times what its group is worth,
 * divided by all that is active in the group, and so on up to the root. What is active is counted at each level as tasks
 * become runnable and sleep, so that what a sleeping group leaves goes to its siblings.
 *
 * Where weights are read. Each task points at its task_group, which has weight, mark of idleness and parent: they are read
 * there, at most every 100 ms, so that no callback of the kernel's is needed, which differ from version to version. A group is
 * known by the number that the cpu controller gives it, which the kernel keeps small and uses again. Groups with a number past
 * the table, and groups that lie deeper than MAX_GROUP_LEVELS, count as part of their nearest ancestor that is known
 * (is_known()).
 *
 * What is active in a group changes with each wake-up, and a task keeps the weight that it was given until it is enqueued again.
 * Divided by what is active at that moment, those that woke first would all weigh too much: thirty tasks that pass messages were
 * worth four times their group. So it is divided by the average of the last 16 ms or so.
 *
 * Concurrency. A group's count and sum of weights share a word that is changed by atomic addition. What it counts for in its
 * parent is in a second word, which is changed by compare-and-swap: the CPU that changes it adds the difference to the parent,
 * so that exactly what was added is taken off again. That CPU then looks at the group once more: another one that made it active,
 * inactive, heavier or lighter meanwhile may have found the second word as it was before, and nothing to do.
 */
#ifndef SCHERZO_GROUPS_BPF_H
#define SCHERZO_GROUPS_BPF_H

#include "foreground.bpf.h"
#include "policy.h"
#include "state.bpf.h"

#define NR_GROUPS 4096
/* Of the default hierarchy, as far as groups have shares and limits of their own. */
#define MAX_GROUP_LEVELS 16
/* How far up a group that is known is looked for: the kernel's limit is higher, but nesting is never that deep. */
#define MAX_KNOWN_STEPS 64
#define GROUP_READ_PERIOD_NS (100 * NSEC_PER_MSEC)
/* What a task group's shares are of its weight, where a nice level of 0 has 1024: scale_load() of kernel/sched/sched.h. */
#define GROUP_SHARES_SHIFT 10
/* The group of tasks in the root: nothing is shared there. */
#define ROOT_GROUP 0U

/* group_ctx.active */
#define ACTIVE_ONE (1ULL << 40)
#define ACTIVE_WEIGHT_MASK (ACTIVE_ONE - 1)

/* task_ctx.grouped and group_ctx.counted: set, group, weight. */
#define GROUPED_SET (1ULL << 63)
#define GROUPED_SHIFT 32
#define GROUPED_MASK 0xffffU

/* group_ctx.mean_active */
#define MEAN_ACTIVE_SHIFT 8
/* Over how long it is averaged, and how often at most, in units of about 1 us. */
#define MEAN_ACTIVE_PERIOD_US (16 << 10)
#define MEAN_ACTIVE_STEP_US 16

struct group_ctx {
	u64 active; /* runnable tasks and active groups directly in it, and the sum of their weights */
	u64 counted; /* while it is active: the parent that it counts in, and with which weight, see carry_up() */
	u64 mean_active; /* of that sum, in parts of 1 << MEAN_ACTIVE_SHIFT, while there is any */
	u64 averaged_ns;
	s64 credit_ns; /* what its tasks may spend of their credit before they cease to go first, see earn_group_credit() */
	s64 prompt_weight; /* flat weights of those of its tasks that are prompt and runnable */
	u64 earned_ns; /* when it last earned some */
	u64 task_group; /* which one this is about; numbers are used again */
	u64 read_ns;
	u64 limits_read_ns; /* when `limiter` was found out: a group is read for those within it, too, its limiter is not */
	u32 parent;
	u32 weight; /* among its siblings */
	u32 credit_scale; /* of 1024: below a weight of 1024 what sleeps in it earns less, see policy_credit_of_sleep() */
	u64 flat_weight; /* what it is worth beside all others, see policy.h */
	u64 flattened_ns; /* when that was worked out, and what was active in its parent then */
	u64 active_around;
	u32 overspent; /* its tasks do not go first */
	u32 limiter; /* the lowest group with a limit, of this one and those above; ROOT_GROUP if there is none */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_GROUPS);
	__type(key, u32);
	__type(value, struct group_ctx);
} group_ctxs SEC(".maps");

static __always_inline struct group_ctx *group_ctx(u32 group)
{
	return bpf_map_lookup_elem(&group_ctxs, &group);
}

/* Of the root and of autogroups, which have no number of the controller's, nothing is counted. */
static __always_inline bool is_root(const struct task_group *tg)
{
	return !tg || !tg->parent;
}

/* The table has room for the group, and it does not lie too deep. A cgroup v1 hierarchy has levels as well. */
static __always_inline bool is_known(const struct task_group *tg)
{
	return (u32)tg->css.id < NR_GROUPS && (!tg->css.cgroup || tg->css.cgroup->level <= MAX_GROUP_LEVELS);
}

/* Copies what the kernel says of a group, but for the one that it is in. */
static __always_inline void read_group(struct group_ctx *group, const struct task_group *tg, u64 now)
{
	u64 shares = tg->shares;

	if (group->task_group != (u64)tg)
		group->credit_scale = 0;
	group->task_group = (u64)tg;
	group->read_ns = now;
	group->flattened_ns = 0;
	group->weight = tg->idle ? POLICY_WEIGHT_IDLE : shares >> GROUP_SHARES_SHIFT ?: 1;
	if (is_foreground_group(tg))
		group->weight = raised_weight(group->weight);
}

/* How much of the credit that a sleeping task earns this group and those above it leave. */
static __always_inline u32 credit_scale(const struct group_ctx *group)
{
	const struct group_ctx *parent = group->parent == ROOT_GROUP ? NULL : group_ctx(group->parent);
	/* None yet if the one around it was read for the first time as well. */
	u64 scale = parent ? parent->credit_scale ?: POLICY_WEIGHT_NORMAL : POLICY_WEIGHT_NORMAL;

	if (group->weight < POLICY_WEIGHT_NORMAL)
		scale = scale * group->weight / POLICY_WEIGHT_NORMAL;
	return scale;
}

static __always_inline bool is_fresh(const struct group_ctx *group, const struct task_group *tg, u64 now)
{
	return group->task_group == (u64)tg && time_delta(now, group->read_ns) < (s64)GROUP_READ_PERIOD_NS;
}

/* The same of its limits, too. Only a group that is known has been read. */
static __always_inline bool is_current(const struct task_group *tg, u64 now)
{
	const struct group_ctx *group = group_ctx(tg->css.id);

	return group && is_fresh(group, tg, now) && time_delta(now, group->limits_read_ns) < (s64)GROUP_READ_PERIOD_NS;
}

/* Scales from below: a change higher up reaches the scale of a group one period later for each level. */
static __always_inline void update_credit_scales(u32 number)
{
	u32 level;

	bpf_for(level, 0, MAX_GROUP_LEVELS) {
		struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

		if (!group)
			break;
		group->credit_scale = credit_scale(group);
		number = group->parent;
	}
}

/* What has been active in the group since it was averaged last counts by its time. A race costs a step. */
static __always_inline void average_active(struct group_ctx *group, u64 now)
{
	s64 active = READ_ONCE(group->active) & ACTIVE_WEIGHT_MASK, mean = READ_ONCE(group->mean_active);
	s64 passed_us = time_delta(now, READ_ONCE(group->averaged_ns)) >> 10;

	if (active && passed_us < MEAN_ACTIVE_STEP_US)
		return;
	WRITE_ONCE(group->averaged_ns, now);
	/* A group in which nothing runs is not worth less for it. */
	if (!active)
		return;
	if (passed_us > MEAN_ACTIVE_PERIOD_US)
		passed_us = MEAN_ACTIVE_PERIOD_US;
	mean += ((active << MEAN_ACTIVE_SHIFT) - mean) * passed_us / MEAN_ACTIVE_PERIOD_US;
	WRITE_ONCE(group->mean_active, mean);
}

static __always_inline u64 grouped_word(u32 number, u32 weight)
{
	return GROUPED_SET | (u64)number << GROUPED_SHIFT | weight;
}

static __always_inline u32 group_in_word(u64 grouped)
{
	return grouped >> GROUPED_SHIFT & GROUPED_MASK;
}

/* What a member with this word adds to its group's; nothing if it is not active. */
static __always_inline u64 active_in_word(u64 grouped)
{
	return grouped ? ACTIVE_ONE + (u32)grouped : 0;
}

static __always_inline bool has_active(u64 active)
{
	return (s64)active >= (s64)ACTIVE_ONE;
}

/* What the group should count for in its parent, but the root counts nothing. While it is active it stays with the same parent. */
static __always_inline u64 word_in_parent(const struct group_ctx *group, u64 counted)
{
	u32 parent = counted ? group_in_word(counted) : READ_ONCE(group->parent);

	if (parent == ROOT_GROUP || !has_active(READ_ONCE(group->active)))
		return 0;
	return grouped_word(parent, READ_ONCE(group->weight));
}

/*
 * The group has become active or inactive, or its weight was read: its parent counts it for what it is now, and so on upwards. It
 * takes two steps for each level that changes. More only if other CPUs change the same groups meanwhile, and these look as well.
 */
VERIFIED_ONCE int carry_up(u32 number, u64 now)
{
	u32 step, changed_parent = ROOT_GROUP;

	bpf_for(step, 0, 4 * MAX_GROUP_LEVELS) {
		struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);
		u64 before, after;

		if (!group)
			break;
		before = READ_ONCE(group->counted);
		after = word_in_parent(group, before);
		if (before == after) {
			number = changed_parent;
			changed_parent = ROOT_GROUP;
			continue;
		}
		if (__sync_val_compare_and_swap(&group->counted, before, after) != before)
			continue;
		changed_parent = group_in_word(before ?: after);
		group = group_ctx(changed_parent);
		if (!group)
			break;
		average_active(group, now);
		__sync_fetch_and_add(&group->active, active_in_word(after) - active_in_word(before));
	}
	return 0;
}

/* limits.bpf.h */
int read_limits(struct task_struct *p __arg_trusted, u32 number, u64 now);

/* The group that was read last is in this one. */
static __always_inline void link_group(u32 number, u32 parent, u64 now)
{
	struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

	if (!group)
		return;
	group->parent = parent;
	carry_up(number, now);
}

/*
 * The number of the task's group, or of the nearest around it that is known. It and those above it are read where they are unknown or
 * were read a while ago.
 */
VERIFIED_ONCE u32 group_of(struct task_struct *p __arg_trusted, u64 now)
{
	/* Pointers loaded after the cast are never trusted, so the verifier need not find out, see VERIFIED_ONCE. */
	const struct task_group *tg = bpf_core_cast(p, struct task_struct)->sched_task_group;
	u32 number = ROOT_GROUP, below = ROOT_GROUP, step;

	if (is_root(tg))
		return ROOT_GROUP;
	if (is_current(tg, now))
		return tg->css.id;
	bpf_for(step, 0, MAX_KNOWN_STEPS) {
		struct group_ctx *group;
		u32 above;

		if (is_root(tg))
			break;
		if (!is_known(tg)) {
			tg = tg->parent;
			continue;
		}
		above = tg->css.id;
		group = group_ctx(above);
		if (!group)
			break;
		if (number == ROOT_GROUP)
			number = above;
		link_group(below, above, now);
		below = ROOT_GROUP;
		if (is_fresh(group, tg, now))
			break;
		read_group(group, tg, now);
		below = above;
		tg = tg->parent;
	}
	if (number == ROOT_GROUP)
		return ROOT_GROUP;
	link_group(below, ROOT_GROUP, now);
	update_credit_scales(number);
	read_limits(p, number, now);
	return number;
}

/* By what a group's weight is divided among those that are active in it: not too far from what is active right now. */
static __always_inline u64 active_weight(struct group_ctx *group, u64 member_weight, u64 now)
{
	u64 active, mean;

	average_active(group, now);
	active = READ_ONCE(group->active) & ACTIVE_WEIGHT_MASK;
	mean = READ_ONCE(group->mean_active) >> MEAN_ACTIVE_SHIFT;
	if (mean < active / 2)
		mean = active / 2;
	if (mean > 4 * active)
		mean = 4 * active;
	return mean > member_weight ? mean : member_weight ?: 1;
}

/* A member with this word becomes active in its group, or ceases to be, and with the last the group itself. */
VERIFIED_ONCE int change_active(u64 grouped, bool active, u64 now)
{
	u32 number = group_in_word(grouped);
	struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);
	u64 change = active_in_word(grouped), before;

	if (!group)
		return 0;
	if (!active)
		change = -change;
	average_active(group, now);
	before = __sync_fetch_and_add(&group->active, change);
	if (has_active(before) != has_active(before + change))
		carry_up(number, now);
	return 0;
}

/* The task is runnable in this group, with this weight. The CPU that swaps the word takes back what it said. */
static __always_inline void join_group(struct task_ctx *tctx, u32 number, u32 weight, u64 now)
{
	u64 now_grouped = number == ROOT_GROUP ? 0 : grouped_word(number, weight);
	u64 before;

	if (READ_ONCE(tctx->grouped) == now_grouped)
		return;
	before = __sync_lock_test_and_set(&tctx->grouped, now_grouped);
	if (now_grouped)
		change_active(now_grouped, true, now);
	if (before)
		change_active(before, false, now);
}

static __always_inline void leave_group(struct task_ctx *tctx, u64 now)
{
	join_group(tctx, ROOT_GROUP, 0, now);
}

/* What was active around a group when its worth was worked out: that holds for so long, while the same is active directly around it. */
#define FLATTEN_PERIOD_NS (250 * NSEC_PER_USEC)

/*
 * What a group is worth beside all others. Where tasks pass messages, to go all the way up for each wake-up would be the dearest part of a
 * switch.
 */
VERIFIED_ONCE u64 flatten_group(u32 number, u64 now)
{
	struct group_ctx *own = number == ROOT_GROUP ? NULL : group_ctx(number);
	struct group_ctx *parent = own && own->parent != ROOT_GROUP ? group_ctx(own->parent) : NULL;
	u64 flat, member_weight, active_around = parent ? READ_ONCE(parent->active) : 0;
	u32 level;

	if (!own)
		return 1;
	member_weight = own->weight;
	flat = member_weight << POLICY_WEIGHT_SHIFT;
	number = own->parent;
	bpf_for(level, 1, MAX_GROUP_LEVELS) {
		struct group_ctx *group = number == ROOT_GROUP ? NULL : group_ctx(number);

		if (!group)
			break;
		flat = flat * group->weight / active_weight(group, member_weight, now);
		member_weight = group->weight;
		number = group->parent;
	}
	WRITE_ONCE(own->flat_weight, flat ?: 1);
	WRITE_ONCE(own->active_around, active_around);
	WRITE_ONCE(own->flattened_ns, now);
	return flat ?: 1;
}

/* What a task of this weight is worth beside all other tasks, in units of 1 / 1024 of the kernel's. It has joined the group. */
static __always_inline u32 flat_weight(struct group_ctx *group, u32 number, u32 weight, u64 now)
{
	const struct group_ctx *parent = group->parent == ROOT_GROUP ? NULL : group_ctx(group->parent);
	u64 flat = READ_ONCE(group->flat_weight);

	/* None yet, although another CPU may have noted the time. */
	if (!flat || time_delta(now, READ_ONCE(group->flattened_ns)) >= (s64)FLATTEN_PERIOD_NS ||
	    (parent && READ_ONCE(parent->active) != READ_ONCE(group->active_around)))
		flat = flatten_group(number, now);
	flat = flat * weight / active_weight(group, weight, now);
	if (flat > ~0U)
		flat = ~0U;
	return flat ?: 1;
}

#endif /* SCHERZO_GROUPS_BPF_H */
