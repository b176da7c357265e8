/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy_use.h: what a task uses of the CPUs beside others, by the virtual clock and by that of all that are runnable.
 * A part of policy.h, which includes it.
 */
#ifndef SCHERZO_POLICY_USE_H
#define SCHERZO_POLICY_USE_H

/*
 * What a task uses beside others: both in virtual time, so the two are alike for one that gets its share. Passed by pointer: clang for BPF
 * copies a structure that is passed by value byte by byte.
 */
struct policy_use {
	u64 ran_ns; /* what it ran for */
	u64 passed_ns; /* what the clock advanced */
	u64 since_ns; /* when both were halved */
};

/*
 * How that compares. Whose use is modest has had no more than others by its weight, so whatever these are owed, it is not because of
 * this task. Moderate is up to twice as much, which is what a prompt task may have: as long as all of them keep to that, the others
 * have half of their share at least. Light is a task by another measure: beside all that are runnable, see policy_is_light(), of which there
 * are four kinds, see policy_light_level(). Little is used by those of them that go before all others, see policy_uses_little().
 */
enum policy_use_level {
	POLICY_USE_HEAVY,
	POLICY_USE_MODERATE,
	POLICY_USE_MODEST,
	POLICY_USE_LIGHT,
	POLICY_USE_LITTLE = POLICY_USE_LIGHT + POLICY_NR_LIGHT_KINDS,
};

static inline enum policy_use_level policy_use_level(const struct policy_use *use)
{
	if (use->ran_ns <= use->passed_ns)
		return POLICY_USE_MODEST;
	return use->ran_ns <= 2 * use->passed_ns ? POLICY_USE_MODERATE : POLICY_USE_HEAVY;
}

/* It has used so much more, now. */
static inline void policy_use_more(struct policy_use *use, u64 ran_ns, u64 passed_ns, u64 now)
{
	if (now - use->since_ns >= POLICY_USE_PERIOD_NS) {
		use->ran_ns /= 2;
		use->passed_ns /= 2;
		use->since_ns = now;
	}
	use->ran_ns += ran_ns;
	use->passed_ns += passed_ns;
}

/*
 * Whether that is less than three quarters of what all that are runnable have by their weights, where the clock advances as fast as these
 * run on average.
 */
static inline bool policy_is_light(const struct policy_use *use)
{
	return 4 * use->ran_ns <= 3 * use->passed_ns;
}

/* The sign of a difference, 1 if it is negative: a comparison that is no branch, as the verifier follows each. */
static inline u32 policy_is_negative(u64 difference)
{
	return difference >> 63;
}

/* How light such a task is: it has had up to all, three quarters, half or a quarter of what a light one has had at most. */
static inline enum policy_use_level policy_light_level(const struct policy_use *use)
{
	u64 ran = 16 * use->ran_ns, passed = 3 * use->passed_ns;

	return POLICY_USE_LITTLE - 1 - policy_is_negative(3 * passed - ran) - policy_is_negative(2 * passed - ran) -
	       policy_is_negative(passed - ran);
}

/*
 * Whether it is less than a quarter of that, in brief bursts, as of what a timer, an input device or sound wakes. Such a task may go before
 * all others: those who work with one another, but rarely do so at the same time, look alike, so all together are held to a part of the CPUs.
 * Who tends to run for long has used little only because it had to wait, and would take all of that part at once.
 */
static inline bool policy_uses_little(const struct policy_use *use, u64 mean_burst_ns)
{
	return 4 * use->ran_ns <= use->passed_ns && mean_burst_ns < POLICY_BURST_MAX_NS;
}

/* How brief a task's bursts are: each kind is of up to twice as long ones as the one before, the last one of 4 ms and more. */
static inline u32 policy_burst_kind(u64 mean_burst_ns)
{
	u64 limit_ns = POLICY_BURST_MAX_NS >> (POLICY_NR_BURST_KINDS - 1);
	u32 kind = 0;

	while (kind < POLICY_NR_BURST_KINDS - 1 && mean_burst_ns >= limit_ns << kind)
		kind++;
	return kind;
}

/* Whether the level is one of a light task: 1 or 0. */
static inline u64 policy_is_one_of_light(u64 level)
{
	return policy_is_negative(level - POLICY_USE_LITTLE) & ~(u64)policy_is_negative(level - POLICY_USE_LIGHT);
}

/* Whether light tasks that ran for so long in this time had more than half of the CPUs: 1 or 0. */
static inline u32 policy_light_is_much(u64 ran_ns, u64 passed_ns, u64 nr_cpus)
{
	return policy_is_negative(passed_ns * nr_cpus - 2 * ran_ns);
}

/* Whether they take more than may go first, having run for so long in this time: 1 or 0. */
static inline u32 policy_little_is_much(u64 ran_ns, u64 passed_ns, u64 nr_cpus)
{
	return policy_is_negative(passed_ns * nr_cpus - ran_ns * POLICY_LITTLE_PART);
}

/* How far the clock advances by which such tasks are known, in a time in which tasks of these flat weights in sum are runnable. */
static inline u64 policy_system_clock_passes(u64 time_ns, s64 all_weight, u64 nr_cpus)
{
	if (all_weight <= 0)
		return 0;
	if (time_ns > POLICY_SYSTEM_SPAN_NS)
		time_ns = POLICY_SYSTEM_SPAN_NS;
	return policy_virtual_ns(time_ns * nr_cpus, all_weight < 0xffffffffLL ? all_weight : 0xffffffffLL);
}

/* In virtual time, what a task has used for which its child has run: as far as use goes back. */
static inline u64 policy_use_of_child(u64 ran_ns, u32 flat_weight)
{
	if (ran_ns > 2 * POLICY_USE_PERIOD_NS)
		ran_ns = 2 * POLICY_USE_PERIOD_NS;
	return policy_virtual_ns(ran_ns, flat_weight);
}

#endif /* SCHERZO_POLICY_USE_H */
