/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy.h: the arithmetic of the policy, once for both seats. No function of the kernel is called here: BPF includes these lines,
 * and user space calls the same ones through `scherzo-arithmetic`.
 *
 * Problem. A task that sleeps a lot should run as soon as it wakes, for as long as a frame of a game takes; one that computes
 * should get its share by weight, whatever others do. A class by the number of sleeps gives both up: naps of microseconds
 * make a task that computes look like one that waits for a person.
 *
 * Approach. A bucket of credit per task, in CPU time. Sleeping fills it, running drains it, waiting does neither. A task with
 * credit is prompt: it goes first, by deadline. Without credit it takes turns with the others by weighted virtual runtime, and what it
 * runs then it owes.
 * The rates let a task that sleeps for a third of its time or more break even. What the prompt take together is limited, so
 * that the others keep at least half of their share (is_fair_owed()).
 *
 * Sources. Weighted virtual runtime: CFS, and EEVDF's bounded lag. Weights: the kernel's nice table. A bucket that is filled by
 * sleeping: the latency credit of scx_eevdf, and BORE's idea that a burst, not a count of switches, tells what a task is.
 */
#ifndef SCHERZO_POLICY_H
#define SCHERZO_POLICY_H

#ifndef __VMLINUX_H__
#include <stdbool.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#endif

#define POLICY_MSEC 1000000ULL

/* Weight of nice 0, and of SCHED_IDLE, as in the kernel. */
#define POLICY_WEIGHT_NORMAL 1024U
#define POLICY_WEIGHT_IDLE 3U
#define POLICY_NR_NICE 40U
/*
 * What a task is worth beside all others, its groups considered, has this many bits more, so that little of a small group's
 * is lost: a flat weight. A task of nice 0 in the root has POLICY_WEIGHT_NORMAL << POLICY_WEIGHT_SHIFT.
 */
#define POLICY_WEIGHT_SHIFT 10

/* As much credit as there can be: the longest burst that is prompt. */
#define POLICY_CREDIT_MAX_NS ((s64)(100 * POLICY_MSEC))
/* As much as a task must have when it wakes to become prompt. It stays so until nothing is left. */
#define POLICY_CREDIT_ENTER_NS ((s64)(8 * POLICY_MSEC))
/*
 * With less than that, at a tick, a task goes on with the credit of parents that wait for it: with what it runs for in two of the
 * longest ticks, as it is not charged for the last one yet, and the next look is at the next one.
 */
#define POLICY_BORROW_BELOW_NS ((s64)(20 * POLICY_MSEC))
/*
 * As much as a task can owe that has run without credit, and has to sleep off before it has any again. If it owed nothing, one long
 * sleep would be enough to become prompt, however long it runs after that: 12 ms of work and naps of 4.6 ms would be prompt each time.
 */
#define POLICY_CREDIT_DEBT_NS ((s64)(60 * POLICY_MSEC))
/*
 * Credit for each nanosecond of sleep: a task that sleeps for half as long as it runs, a third of its time, gets back
 * what it took.
 */
#define POLICY_CREDIT_PER_SLEEP 2
/*
 * What a task is given for once in a while that takes turns and wakes prompt tasks: enough to make up for a frame that is late, whatever
 * it owes. Who was only late sleeps again after that, and goes on by itself; who was not goes on taking turns, and waits for twice as
 * long each time, up to POLICY_TRIAL_MAX_DOUBLINGS times. A new task waits for its first trial for less than that, but for longer than
 * most programs of a build live.
 */
#define POLICY_TRIAL_NS ((s64)(64 * POLICY_MSEC))
#define POLICY_TRIAL_PERIOD_NS (1000 * POLICY_MSEC)
#define POLICY_TRIAL_MAX_DOUBLINGS 5
#define POLICY_FIRST_TRIAL_NS (250 * POLICY_MSEC)
/* How much credit per CPU the tasks of a group may spend at once beyond what it earns, and how often it earns some. */
#define POLICY_GROUP_CREDIT_MAX_NS (16 * POLICY_MSEC)
#define POLICY_EARN_PERIOD_NS (1 * POLICY_MSEC)
/* The longest time that is charged or credited at once: more comes from a fault or a suspended machine. */
#define POLICY_MAX_SPAN_NS (10000 * POLICY_MSEC)
/* The longest habitual burst that counts in a deadline. */
#define POLICY_BURST_MAX_NS (8 * POLICY_MSEC)
/* A task that is not prompt waits for so long at most, however little it weighs; and among thousands, see policy_max_wait_ns(). */
#define POLICY_MAX_WAIT_NS (1000 * POLICY_MSEC)
#define POLICY_MAX_CROWD_WAIT_NS (10000 * POLICY_MSEC)
/* The longest slice, and the shortest, turns against a task's weight aside. */
#define POLICY_SLICE_MAX_NS (20 * POLICY_MSEC)
#define POLICY_SLICE_MIN_NS (1 * POLICY_MSEC)
/* Slices end at ticks that are mostly this far apart; where they are further apart, all short slices end by timer. */
#define POLICY_TICK_NS (4 * POLICY_MSEC)
/* What a task gets at least when it has waited so long. */
#define POLICY_TURN_NS (POLICY_MSEC / 4)
/* The part of the CPUs' time that such turns may take. */
#define POLICY_TURNS_PART 16
/* The virtual clock is where the tasks are that are picked after so long. */
#define POLICY_FOLLOW_NS (16 * POLICY_MSEC)
/* A task that wakes takes a CPU from one that is further ahead of it than this much of its own time. */
#define POLICY_WAKE_LEAD_NS (10 * POLICY_MSEC)
/* Over about twice this time it is seen what a task uses of the CPUs beside others. */
#define POLICY_USE_PERIOD_NS (128 * POLICY_MSEC)
/* How often the clock of all that are runnable advances at most, and how far back it is made up for. */
#define POLICY_SYSTEM_PERIOD_NS (1 * POLICY_MSEC)
#define POLICY_SYSTEM_SPAN_NS (20 * POLICY_MSEC)
/*
 * What uses little of what it could have is due so much before others, as long as all such tasks together have used no more than this
 * part of the CPUs: see policy_uses_little(). That is measured over such times, of so many kinds of tasks by how brief their bursts are.
 */
#define POLICY_LITTLE_LEAD_NS (50 * POLICY_MSEC)
#define POLICY_LITTLE_PART 8
#define POLICY_LITTLE_PERIOD_NS (64 * POLICY_MSEC)
#define POLICY_NR_BURST_KINDS 8
/*
 * A task whose bursts are briefer than this is due so much later where messages for it gather: hundreds come in that time. The second is
 * divisible by eight, for the marks of use, see POLICY_USE_MASK.
 */
#define POLICY_MESSAGE_BURST_NS (100 * POLICY_MSEC / 1000)
#define POLICY_MESSAGES_GATHER_NS (4 * POLICY_MSEC)
/* How much earlier a prompt task is due whose use is modest or light, and moderate. Each is marked in its deadline. */
#define POLICY_MODEST_AHEAD_NS (550 * POLICY_MSEC)
#define POLICY_MODERATE_AHEAD_NS (500 * POLICY_MSEC)
#define POLICY_NR_LIGHT_KINDS 4
#define POLICY_USE_MASK 7ULL
/*
 * How far ahead of the others a prompt task begins to take turns with them because they are owed: what it ran while it went first is
 * in their account, and not held against it a second time. More would make each of its bursts wait for that much of their time; with
 * nothing, whatever wakes would be next.
 */
#define POLICY_YIELD_AHEAD_NS (2 * POLICY_MSEC)
/*
 * How long a prompt task waits at most that uses more than it may while the others are owed CPU time, and how often a CPU lets one go
 * first for that reason.
 */
#define POLICY_PROMPT_TURN_NS (500 * POLICY_MSEC)
/*
 * A prompt task whose bursts are so many times briefer than what another has run without a break interrupts it although others are due
 * before: of what these wait for such tasks take a fifth at most.
 */
#define POLICY_SLIP_IN_TIMES 4
/*
 * How long a task of nice 0 that takes turns may be the first without getting one, while prompt ones get all, where several CPUs may take it:
 * far longer than what all prompt ones of an LLC may be ahead lets it wait. Where one CPU alone may take it, for a slice and three of others; or
 * if the prompt may run there only as well, for as long as leaves it half of its share, see policy_overdue_alone_ns(). Its turns on one CPU are
 * brief, since what makes sound waits for their end.
 */
#define POLICY_OVERDUE_NS (100 * POLICY_MSEC)
#define POLICY_OVERDUE_ALONE_NS (20 * POLICY_MSEC)
#define POLICY_OVERDUE_TURN_NS (2 * POLICY_MSEC)
/* How much CPU time per CPU the prompt may be ahead of what leaves the others half of their share. */
#define POLICY_LEAD_MAX_NS (8 * POLICY_MSEC)

/* sched_prio_to_weight[] of kernel/sched/core.c: 10 % of CPU time for each nice level. */
static const u32 policy_nice_weights[POLICY_NR_NICE] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
	3906,  3121,  2501,  1991,  1586,  1277,  1024,	 820,	655,   526,   423,  335,  272,	215,
	172,   137,   110,   87,    70,	   56,	  45,	 36,	29,    23,    18,   15,
};

/* The weight of a nice level, as static priority counts them: 0 is nice -20. */
static inline u32 policy_weight(u32 nice_index)
{
	return nice_index < POLICY_NR_NICE ? policy_nice_weights[nice_index] : POLICY_WEIGHT_NORMAL;
}

/* The lesser of two numbers that are no more than 2^63 apart: without a branch, as the verifier follows each. */
static inline u64 policy_lesser(u64 one, u64 two)
{
	s64 more = (s64)(one - two);

	return two + (more & more >> 63);
}

/* Virtual time that passes for a task of this flat weight while it runs. */
static inline u64 policy_virtual_ns(u64 run_ns, u32 flat_weight)
{
	if (run_ns > POLICY_MAX_SPAN_NS)
		run_ns = POLICY_MAX_SPAN_NS;
	return run_ns * (POLICY_WEIGHT_NORMAL << POLICY_WEIGHT_SHIFT) / (flat_weight ? flat_weight : 1);
}

/* What a task earns that has slept. Below nice 0 it is worth less of it, as of everything. */
static inline u64 policy_credit_of_sleep(u64 slept_ns, u32 weight)
{
	if (slept_ns > POLICY_CREDIT_MAX_NS)
		slept_ns = POLICY_CREDIT_MAX_NS;
	if (weight > POLICY_WEIGHT_NORMAL)
		weight = POLICY_WEIGHT_NORMAL;
	return slept_ns * POLICY_CREDIT_PER_SLEEP * weight / POLICY_WEIGHT_NORMAL;
}

/*
 * Whether a task that runs and sleeps for so long uses less than its share of so many CPUs. `all_weight` has the flat weights of all
 * that want these CPUs, its own included.
 */
static inline bool policy_is_within_share(u64 ran_ns, u64 slept_ns, u64 flat_weight, u64 all_weight, u64 nr_cpus)
{
	u64 span_ns = ran_ns + slept_ns, weight = (flat_weight >> POLICY_WEIGHT_SHIFT) * nr_cpus;

	all_weight >>= POLICY_WEIGHT_SHIFT;
	return weight >= all_weight || (ran_ns >> 10) * all_weight <= (span_ns >> 10) * weight;
}

#include "policy_use.h"

/*
 * How far ahead of the clock a task is that takes the place of one of another flat weight: by as much of its own time. It is not let down
 * behind a lighter one, which a moment puts far ahead, and gains nothing from a heavier one.
 */
static inline u64 policy_ahead_in_place_of(u64 ahead_ns, u32 flat_weight, u32 of_flat_weight)
{
	if (ahead_ns > POLICY_MAX_SPAN_NS)
		ahead_ns = POLICY_MAX_SPAN_NS;
	return of_flat_weight < flat_weight ? ahead_ns * of_flat_weight / flat_weight : ahead_ns;
}

/* What a task has after having earned so much more. */
static inline s64 policy_credit_earned(s64 credit_ns, s64 earned_ns)
{
	credit_ns += earned_ns;
	return credit_ns < POLICY_CREDIT_MAX_NS ? credit_ns : POLICY_CREDIT_MAX_NS;
}

/* Credit after having run: less than none, if it had none left. */
static inline s64 policy_credit_ran(s64 credit_ns, u64 run_ns)
{
	if (run_ns > POLICY_MAX_SPAN_NS)
		run_ns = POLICY_MAX_SPAN_NS;
	credit_ns -= run_ns;
	return credit_ns > -POLICY_CREDIT_DEBT_NS ? credit_ns : -POLICY_CREDIT_DEBT_NS;
}

/*
 * The weight beside which a group earns credit. That is what the prompt tasks of others weigh; and while those are owed that take turns,
 * whose flat weights have this sum, at least as much as gives the group twice its share of everything, which is what prompt tasks may
 * have. A task that takes more than that gives way by itself, but of many that share the weight of their group each may be within its
 * part. Where nobody is owed, what others weigh does not tell how much of the CPUs they could use.
 */
static inline u64 policy_weight_beside_group(u64 group_weight, u64 prompt_weight, u64 owed_weight)
{
	u64 all_others = prompt_weight + owed_weight, beside = all_others > group_weight ? (all_others - group_weight) / 2 : 0;

	return owed_weight && beside > prompt_weight ? beside : prompt_weight;
}

/*
 * What a group of this flat weight earns in a time: its part of what the CPUs could give to it and to the tasks of other groups that
 * have credit. A thirty-second more, so that a group which has all CPUs to itself gets out of debt.
 */
static inline u64 policy_group_earns(u64 time_ns, u64 nr_cpus, u64 group_weight, u64 others_weight)
{
	u64 part = ((group_weight + 1) << 16) / (group_weight + 1 + others_weight), earned_ns;

	if (time_ns > POLICY_CREDIT_MAX_NS)
		time_ns = POLICY_CREDIT_MAX_NS;
	earned_ns = time_ns * nr_cpus * part >> 16;
	return earned_ns + earned_ns / 32;
}

/*
 * Virtual runtime of a task that takes turns from now on, and has been prompt: no further ahead of the clock than so much of its own
 * time, since it had slept for what it ran. Where its credit has been used up that is POLICY_CREDIT_ENTER_NS, what makes a task prompt,
 * which one that sleeps too little could otherwise have for nothing again and again.
 */
static inline u64 policy_not_further_ahead(u64 vruntime, u64 clock, u64 most_ahead_ns, u32 flat_weight)
{
	u64 latest = clock + policy_virtual_ns(most_ahead_ns, flat_weight);

	return (s64)(vruntime - latest) > 0 ? latest : vruntime;
}

/*
 * Whether a task that is POLICY_YIELD_AHEAD_NS ahead of the clock has its turn within POLICY_PROMPT_TURN_NS, while tasks of these flat
 * weights in sum take turns on so many CPUs.
 */
static inline bool policy_turn_comes_soon(u64 flat_weight, s64 fair_weight, u64 nr_cpus)
{
	return fair_weight <= (s64)(flat_weight * nr_cpus * (POLICY_PROMPT_TURN_NS / POLICY_YIELD_AHEAD_NS));
}

/* How long a task tends to run between sleeps, the newest burst counting half. */
static inline u64 policy_mean_burst(u64 mean_ns, u64 burst_ns)
{
	if (burst_ns > POLICY_CREDIT_MAX_NS)
		burst_ns = POLICY_CREDIT_MAX_NS;
	return (mean_ns + burst_ns) / 2;
}

/*
 * When a prompt task is due that wakes now: shorter and heavier ones sooner, and those that use no more than they may before all
 * others. It keeps that deadline until it has run for as long as it tends to.
 */
static inline u64 policy_deadline(u64 now, u64 mean_burst_ns, u32 weight, enum policy_use_level use)
{
	u64 distance_ns;

	if (mean_burst_ns > POLICY_BURST_MAX_NS)
		mean_burst_ns = POLICY_BURST_MAX_NS;
	if (use >= POLICY_USE_LIGHT && use < POLICY_USE_LITTLE)
		mean_burst_ns = mean_burst_ns * (POLICY_USE_LITTLE - use) / POLICY_NR_LIGHT_KINDS;
	distance_ns = mean_burst_ns * POLICY_WEIGHT_NORMAL / (weight ? weight : 1);
	now += policy_lesser(distance_ns, POLICY_MAX_WAIT_NS);
	if (use >= POLICY_USE_MODEST)
		now -= POLICY_MODEST_AHEAD_NS;
	else if (use == POLICY_USE_MODERATE)
		now -= POLICY_MODERATE_AHEAD_NS;
	return (now & ~POLICY_USE_MASK) | use;
}

/* Of the task that has this deadline. */
static inline enum policy_use_level policy_use_of_deadline(u64 due_ns)
{
	return due_ns & POLICY_USE_MASK;
}

/* The longest time that a task waits: a second, or longer if as many turns took more than their part of the CPUs in that time. */
static inline u64 policy_max_wait_ns(u64 nr_fair, u64 nr_cpus)
{
	u64 wait_ns = nr_fair * POLICY_TURN_NS * POLICY_TURNS_PART / (nr_cpus ? nr_cpus : 1);

	if (wait_ns > POLICY_MAX_CROWD_WAIT_NS)
		return POLICY_MAX_CROWD_WAIT_NS;
	return wait_ns > POLICY_MAX_WAIT_NS ? wait_ns : POLICY_MAX_WAIT_NS;
}

/*
 * The same for a task of nice 0 of one CPU only, while one prompt task of that CPU only runs there and so many wait: with a turn of POLICY_OVERDUE_TURN_NS
 * after that it has half of what each of them all would have.
 */
static inline u64 policy_overdue_alone_ns(u64 nr_prompt_waiting)
{
	return policy_lesser(2 * (nr_prompt_waiting + 2) - 1, 1000) * POLICY_OVERDUE_TURN_NS;
}

/* The turn that such a task has after it has waited for so long instead: in proportion, within twice as long. */
static inline u64 policy_overdue_turn_ns(u64 waited_ns, u64 limit_ns)
{
	return policy_lesser(waited_ns * POLICY_OVERDUE_TURN_NS / (limit_ns ? limit_ns : 1), 2 * POLICY_OVERDUE_TURN_NS);
}

/* How long a task of this weight may be the first of a queue without a turn, if one of nice 0 may for so long. */
static inline s64 policy_overdue_ns(u64 normal_ns, u32 weight)
{
	u64 limit_ns = normal_ns * POLICY_WEIGHT_NORMAL / (weight ? weight : 1);

	return policy_lesser(limit_ns, POLICY_MAX_WAIT_NS);
}

/*
 * How far the virtual clock advances in the longest time that a task may wait, while so many tasks of these flat weights in sum
 * take turns on so many CPUs, of which these may run the task: where fewer do, the clock passes as much more slowly for it.
 */
static inline s64 policy_max_lag(u64 fair_weight, u64 nr_fair, u64 nr_cpus, u64 nr_serving)
{
	return policy_max_wait_ns(nr_fair, nr_cpus) * nr_serving /
	       (fair_weight / (POLICY_WEIGHT_NORMAL << POLICY_WEIGHT_SHIFT) ?: 1);
}

/*
 * How long a task that is not prompt may run until it is as far ahead of the others as the longest wait lets it be. A slice is no longer
 * than that: one that weighs next to nothing would otherwise get a whole slice at each of the turns that it has against its weight.
 */
static inline u64 policy_longest_turn(u32 flat_weight, s64 max_lag)
{
	u64 turn_ns = (u64)max_lag * flat_weight / (POLICY_WEIGHT_NORMAL << POLICY_WEIGHT_SHIFT);

	return turn_ns < POLICY_TURN_NS ? POLICY_TURN_NS : turn_ns;
}

/* How far the virtual clock advances in a time, while tasks of these flat weights in sum take turns on so many CPUs. */
static inline u64 policy_clock_passes(u64 time_ns, u64 fair_weight, u64 nr_cpus)
{
	u64 weight = fair_weight >> POLICY_WEIGHT_SHIFT;

	if (time_ns > POLICY_MAX_SPAN_NS)
		time_ns = POLICY_MAX_SPAN_NS;
	return time_ns * nr_cpus / (weight ? weight : 1) * POLICY_WEIGHT_NORMAL;
}

/*
 * By how much the virtual clock follows a task that is picked so far ahead of it, that long after it has advanced last: twice as
 * fast as it passes, or all the way within POLICY_FOLLOW_NS. At once would be wrong: a light task that finds a CPU while heavy ones
 * nap for a moment would put the clock so far ahead that what these are behind is forgotten. Only as fast as it passes, too: a heavy
 * task that uses one CPU and cannot use two makes it pass more slowly than the others get on.
 */
static inline u64 policy_follow(u64 ahead, u64 since_ns, u64 passed)
{
	u64 part = ahead;

	if (since_ns < POLICY_FOLLOW_NS)
		part = (ahead >> 10) * since_ns / (POLICY_FOLLOW_NS >> 10);
	if (part < 2 * passed)
		part = 2 * passed;
	return part < ahead ? part : ahead;
}

/*
 * Virtual runtime after a sleep in which the clock would have advanced so far. What the task was behind before it slept is still due
 * to it, but not the time that it slept: a heavy task that naps would otherwise lose its place to whatever runs meanwhile.
 */
static inline u64 policy_wake(u64 vruntime, u64 clock, u64 passed)
{
	s64 behind = (s64)(clock - vruntime);

	return behind <= 0 ? vruntime : passed < (u64)behind ? vruntime + passed : clock;
}

/*
 * Virtual runtime within reach of the LLC's virtual clock, so that a long wait is not remembered for ever: not further behind than four
 * slices of the task's own time.
 */
static inline u64 policy_catch_up(u64 vruntime, u64 clock, u64 slice_ns, u32 flat_weight)
{
	u64 earliest = clock - policy_virtual_ns(4 * slice_ns, flat_weight);

	return (s64)(vruntime - earliest) < 0 ? earliest : vruntime;
}

/*
 * Whether a task that is so far ahead of the clock waits for less than the shortest of the longest waits. That takes no division, and
 * almost always it does; if not, policy_max_lag() says how far ahead it may be.
 */
static inline bool policy_waits_briefly(u64 ahead, u64 fair_weight)
{
	return ahead <= POLICY_MAX_WAIT_NS && (ahead >> 10) * (fair_weight >> 10) <= POLICY_MAX_WAIT_NS;
}

#include "policy_lead.h"

/*
 * What the turn of a task that must wait depends on. BPF keeps the account in either seat, since that takes every start and stop;
 * user space is told it with each task that it is to decide about.
 */
struct policy_account {
	u64 vruntime; /* its place in virtual time, see policy_wake() and policy_catch_up() */
	u64 credit_ns;
	u64 due_ns; /* while it is prompt, see policy_deadline() */
	s64 max_lag; /* of its LLC, see policy_max_lag() */
	u32 weight; /* flat */
	u32 nr_others; /* tasks that wait in the LLC without being prompt, for each CPU there */
	u32 prompt; /* 1 or 0 */
	u32 asked_slice_us; /* by sched_setattr(), 0 if it has not asked */
};

/* Its turn: when it comes, and how long it lasts. */
struct policy_turn {
	u64 vtime; /* a deadline if it goes first, else virtual runtime: neither says anything about the other */
	u64 slice_ns;
	u32 first; /* it waits among the prompt, before the others */
	u32 timed; /* a timer ends the slice: it is short because of the task's weight */
};

/*
 * The turn of a task that is queued now. In the order of arrival no task goes first. Beside more tasks than one for each CPU the
 * slice shrinks, unless the task has asked for one of that length; a prompt task may run as long as its credit lasts.
 */
static inline struct policy_turn policy_turn_of(const struct policy_account *task, u64 slice_ns, bool by_arrival)
{
	struct policy_turn turn = {
		.vtime = task->prompt && !by_arrival ? task->due_ns : task->vruntime,
		.first = task->prompt && !by_arrival,
	};
	u64 longest_ns;

	if (task->asked_slice_us)
		slice_ns = (u64)task->asked_slice_us * (POLICY_MSEC / 1000);
	else if (!task->prompt)
		slice_ns /= 1 + (u64)task->nr_others;
	if (task->prompt && (!task->asked_slice_us || task->credit_ns < slice_ns))
		slice_ns = task->credit_ns;
	if (slice_ns > POLICY_SLICE_MAX_NS)
		slice_ns = POLICY_SLICE_MAX_NS;
	if (slice_ns < POLICY_SLICE_MIN_NS)
		slice_ns = POLICY_SLICE_MIN_NS;
	turn.slice_ns = slice_ns;
	if (task->prompt)
		return turn;
	longest_ns = policy_longest_turn(task->weight, task->max_lag);
	if (longest_ns < slice_ns)
		turn.slice_ns = longest_ns;
	/* What it runs until the next tick beyond that would be forgotten, see policy_max_lag(): thousands take more than their share. */
	turn.timed = longest_ns < slice_ns || longest_ns < POLICY_TICK_NS;
	return turn;
}

#include "policy_utilisation.h"

#endif /* SCHERZO_POLICY_H */
