/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * credit.bpf.h: the account of each task, in either seat: it is charged for what it runs, and credited for what it sleeps
 * (policy.h).
 *
 * Concurrency. A task's own fields are changed under the kernel's locks for that task (it wakes, runs or is enqueued on one
 * CPU at a time). An LLC's virtual clock is shared, and only ever moved forward, by a compare-and-swap. A race costs a slice's
 * worth of order at most.
 */
#ifndef SCHERZO_CREDIT_BPF_H
#define SCHERZO_CREDIT_BPF_H

#include "control.bpf.h"
#include "group_credit.bpf.h"
#include "groups.bpf.h"
#include "lead.bpf.h"
#include "state.bpf.h"
#include "use.bpf.h"
#include "weight.bpf.h"

/* How far an LLC's virtual clock advances in a time, while the tasks take turns that are runnable there without being prompt. */
static __always_inline u64 clock_passes(const struct llc_ctx *llcx, u64 time_ns)
{
	s64 fair_weight = READ_ONCE(llcx->fair_weight);

	return policy_clock_passes(time_ns, fair_weight > 0 ? fair_weight : 0, cpus_per_llc());
}

/* The virtual clock of an LLC follows the tasks that are picked. */
static __always_inline void advance_clock(struct llc_ctx *llcx, u64 vruntime, u64 now)
{
	u64 clock = READ_ONCE(llcx->clock), since_ns = time_delta(now, READ_ONCE(llcx->clock_at_ns));
	s64 ahead = signed_delta(vruntime, clock);

	if (ahead <= 0)
		return;
	WRITE_ONCE(llcx->clock_at_ns, now);
	ahead = policy_follow(ahead, since_ns, clock_passes(llcx, since_ns));
	__sync_val_compare_and_swap(&llcx->clock, clock, clock + ahead);
}

/*
 * How far ahead of the others of its LLC a task may be that is not prompt, in virtual time. That passes more slowly for those that fewer
 * CPUs serve.
 */
static __always_inline s64 max_lag_of(const struct llc_ctx *llcx, const struct task_ctx *tctx)
{
	u64 nr_cpus = cpus_per_llc(), nr_serving = policy_lesser(tctx->nr_serving, nr_cpus);
	s64 fair_weight = READ_ONCE(llcx->fair_weight);
	s32 nr_fair = READ_ONCE(llcx->nr_fair);

	return policy_max_lag(fair_weight > 0 ? fair_weight : 0, nr_fair > 0 ? nr_fair : 0, nr_cpus, nr_serving);
}

/* The task's virtual runtime, so far behind or ahead of the LLC's clock as the policy lets it be. */
static __always_inline u64 within_reach(const struct task_ctx *tctx, const struct llc_ctx *llcx, u64 clock,
					const struct scherzo_control *page)
{
	s64 ahead = signed_delta(tctx->vruntime, clock), fair_weight = READ_ONCE(llcx->fair_weight), max_lag;
	u64 vruntime = tctx->vruntime;

	if (ahead < 0) {
		if (tctx->slept_ns)
			vruntime = policy_wake(vruntime, clock, clock_passes(llcx, tctx->slept_ns));
		return policy_catch_up(vruntime, clock, default_slice_ns(page), tctx->weight);
	}
	/* One that is prompt is not among those that it is ahead of; stop_being_prompt() sees to that. */
	if (tctx->prompt || policy_waits_briefly(ahead, fair_weight > 0 ? fair_weight : 0))
		return vruntime;
	max_lag = max_lag_of(llcx, tctx);
	return ahead > max_lag ? clock + max_lag : vruntime;
}

/* Gives the task its place in the virtual time of the LLC where it is now. */
VERIFIED_ONCE int place_in_virtual_time(struct task_ctx *tctx, u32 llc)
{
	const struct scherzo_control *page = control_page();
	const struct llc_ctx *from, *to = llc_ctx(llc);
	u64 clock;

	if (!tctx || !to || !page)
		return 0;
	from = llc_ctx(tctx->llc);
	clock = READ_ONCE(to->clock);
	if (from && tctx->llc != llc) {
		u64 ahead = clock - READ_ONCE(from->clock), system_ahead = READ_ONCE(to->system_clock) - READ_ONCE(from->system_clock);

		tctx->vruntime += ahead;
		tctx->vacated_vruntime += ahead;
		tctx->use.seen_clock += ahead;
		tctx->use.slept_clock += ahead;
		tctx->use.seen_system_clock += system_ahead;
		tctx->use.slept_system_clock += system_ahead;
	}
	tctx->llc = llc;
	tctx->vruntime = within_reach(tctx, to, clock, page);
	tctx->slept_ns = 0;
	return 0;
}

/*
 * CPU time that the kernel has charged the task and we have not. It is the kernel's own account, since that goes on for a
 * moment after ops.stopping: until the next task has been picked, the one that went to sleep pays. A task that sleeps often
 * would otherwise get more than it is charged for. Where the kernel tells interrupts and stolen time apart, they are not in
 * it.
 */
static __always_inline u64 uncharged_ns(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 sum_exec_ns = p->se.sum_exec_runtime;
	s64 ran_ns = signed_delta(sum_exec_ns, tctx->charged_exec_ns);

	if (ran_ns <= 0)
		return 0;
	tctx->charged_exec_ns = sum_exec_ns;
	return ran_ns;
}

static __always_inline void charge_for(struct task_ctx *tctx, u64 ran_ns)
{
	s64 credit_ns = tctx->credit_ns, left_ns = policy_credit_ran(credit_ns, ran_ns);
	u64 vran_ns = policy_virtual_ns(ran_ns, tctx->weight);

	tctx->vruntime += vran_ns;
	tctx->use.vran_ns += vran_ns;
	tctx->credit_ns = left_ns;
	if (credit_ns > 0)
		spend_group_credit(tctx->group, credit_ns - (left_ns > 0 ? left_ns : 0));
}

/* The task takes turns with the others from here on, no further ahead of them than that. */
static __always_inline void stop_being_prompt(struct task_ctx *tctx, u64 most_ahead_ns)
{
	const struct llc_ctx *llcx = llc_ctx(tctx->llc);

	tctx->prompt = false;
	if (llcx)
		tctx->vruntime = policy_not_further_ahead(tctx->vruntime, READ_ONCE(llcx->clock), most_ahead_ns, tctx->weight);
}

/* The task's group has spent too much, so it takes turns although it may have credit. Not who uses little, which is not why. */
static __always_inline bool takes_turns_with_group(const struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	return is_overspent(tctx->group, now) && !goes_first(p, tctx);
}

/*
 * The task runs for less than its share, as far as its last burst and the sleep after that tell. So it takes nothing from others,
 * however little it sleeps. The others are weighed both when it goes to sleep and when it wakes, since of tasks that nap at the same
 * time the first one to wake finds the others asleep. Niced work is not meant: it waits although nobody is hurt by it. Nor is a task
 * that may not use all CPUs: how many others want those that it may use is not known, and its share may be far less.
 */
static __always_inline bool is_within_share(const struct task_struct *p, const struct task_ctx *tctx)
{
	const struct scherzo_control *page = control_page();
	const struct llc_ctx *llcx = llc_ctx(tctx->llc);
	s64 all_weight;

	if (!page || !llcx || tctx->own_weight < POLICY_WEIGHT_NORMAL || p->nr_cpus_allowed < (s64)page->nr_online_cpus)
		return false;
	all_weight = runnable_weight(llcx) + (tctx->counted ? 0 : tctx->weight);
	if (all_weight < tctx->rivals_weight)
		all_weight = tctx->rivals_weight;
	return policy_is_within_share(tctx->last_burst_ns, tctx->last_sleep_ns, tctx->weight, all_weight > 0 ? all_weight : 0,
				      cpus_per_llc());
}

/*
 * What a task has earned that wakes up: by its sleep, or what it has used of its share. To wait for the machine, or to have been stopped, is
 * no more of a sleep than to wait for a CPU: compilers whose memory is moved, or that read from a disk, would be as prompt as what waits
 * for a person.
 */
static __always_inline u64 earned_ns(const struct task_struct *p, const struct task_ctx *tctx)
{
	u64 of_sleep_ns = tctx->slept_interruptibly ? policy_credit_of_sleep(tctx->slept_ns, tctx->own_weight) : 0;

	return of_sleep_ns < tctx->last_burst_ns && is_within_share(p, tctx) ? tctx->last_burst_ns + of_sleep_ns : of_sleep_ns;
}

/*
 * The deadline of a prompt task that is queued. One that has lost its CPU keeps what it was given when it woke: it would otherwise
 * start again at the end each time that a shorter one comes. One that has run for as long as it tends to takes turns: it has another one for
 * as long again, so that a game which is late, and does not sleep between its frames, gets on as one does that is in time.
 */
VERIFIED_ONCE u64 keep_deadline(struct task_struct *p __arg_trusted, struct task_ctx *tctx, u64 burst_ns, u64 now)
{
	if (!tctx)
		return now;
	if (!tctx->due_ns || burst_ns - tctx->due_from_burst_ns >= tctx->mean_burst_ns) {
		enum policy_use_level use = use_level(p, tctx, now);
		u64 from_ns = use == POLICY_USE_LITTLE ? now - POLICY_LITTLE_LEAD_NS : now;

		tctx->due_ns = policy_deadline(from_ns, tctx->mean_burst_ns, tctx->own_weight, use);
		tctx->due_from_burst_ns = burst_ns;
		tctx->use_level = use;
	}
	return tctx->due_ns;
}

/*
 * A prompt task with this deadline has had more than it may while the others are owed: it takes turns with them, until it wakes again or
 * stop_yielding() says so. Among the prompt it would not run at all until they are owed nothing, or POLICY_PROMPT_TURN_NS have passed; so
 * it stays there only where its turn among the others would come still later.
 */
static __always_inline void yield_to_fair(struct task_ctx *tctx, u32 llc, u64 due_ns)
{
	const struct llc_ctx *llcx = llc_ctx(llc);

	if (!llcx || !yields_to_fair(llc, due_ns) ||
	    !policy_turn_comes_soon(tctx->weight, READ_ONCE(llcx->fair_weight), cpus_per_llc()))
		return;
	stop_being_prompt(tctx, POLICY_YIELD_AHEAD_NS);
	tctx->yields = true;
	tctx->due_ns = 0;
}

/* The others are owed no more than the task may have beside them: it goes first again, with the credit that it had. */
static __always_inline void stop_yielding(const struct task_struct *p, struct task_ctx *tctx, u32 llc, u64 now)
{
	enum policy_use_level use;

	if (!tctx->yields)
		return;
	/* Of moderate use it gave way only once they were owed twice as much, but takes turns for as long as any other. */
	use = use_level(p, tctx, now);
	if (yields_to_fair(llc, use == POLICY_USE_MODERATE ? POLICY_USE_HEAVY : use))
		return;
	tctx->yields = false;
	tctx->prompt = tctx->credit_ns > 0 && may_be_prompt(p) && !takes_turns_with_group(p, tctx, now);
}

/*
 * The task that runs on this CPU wakes a prompt one, and says that it has something for it: a game whose compositor waits for the
 * frame, or a server whose client does. If it takes turns itself, it is remembered. An interrupt in the middle of a task looks the same
 * where it brings data; a trial more does no harm.
 */
VERIFIED_ONCE int note_feeding(const struct task_ctx *woken, u64 wake_flags)
{
	const struct cpu_ctx *cpuc = cpu_ctx(bpf_get_smp_processor_id());
	struct task_ctx *tctx;

	/* What is published may be preempted: it takes turns. */
	if (!woken || !woken->prompt || !(wake_flags & SCX_WAKE_SYNC) || !cpuc || !READ_ONCE(cpuc->victim_deadline))
		return 0;
	tctx = task_ctx(bpf_get_current_task_btf());
	if (tctx && !tctx->feeds_prompt)
		tctx->feeds_prompt = true;
	return 0;
}

/* It becomes prompt, with the credit of a trial. */
static __always_inline void goes_first_for_once(struct task_ctx *tctx)
{
	tctx->credit_ns = POLICY_TRIAL_NS;
	tctx->prompt = true;
	tctx->due_ns = 0;
}

/* No other task of the LLC takes turns, so nobody's share is less because this one goes first. */
static __always_inline bool takes_turns_alone(const struct task_struct *p, const struct task_ctx *tctx, u32 llc)
{
	const struct scherzo_control *page = control_page();
	const struct llc_ctx *llcx = llc_ctx(llc);

	return page && llcx && p->nr_cpus_allowed >= (s64)page->nr_online_cpus &&
	       READ_ONCE(llcx->fair_weight) <= (s64)tctx->weight;
}

/*
 * A task that prompt ones wait for takes turns with the others: it goes first for once. A game that fell behind, as one does that has
 * loaded a level beside a build, does not sleep between its frames, as the next is always late. It would never have credit again,
 * although it would sleep for half of its time if it were in time. While it would have to take turns all the same, since the prompt have
 * had what they may, the trial waits: it would be in vain, and the next one comes much later.
 *
 * One that takes turns alone, and has had less than three quarters of what all that are runnable have, goes first each time that it is
 * queued: the prompt take what is its share.
 */
static __always_inline void begin_trial(const struct task_struct *p, struct task_ctx *tctx, u32 llc, u64 now)
{
	bool is_alone;

	if (!tctx->feeds_prompt)
		return;
	if (tctx->prompt || tctx->own_weight < POLICY_WEIGHT_NORMAL || !may_be_prompt(p) || takes_turns_with_group(p, tctx, now)) {
		tctx->feeds_prompt = false;
		return;
	}
	is_alone = takes_turns_alone(p, tctx, llc);
	if (is_alone) {
		note_use(tctx, now);
		if (policy_is_light(&tctx->use.of_all)) {
			goes_first_for_once(tctx);
			return;
		}
	}
	if (time_delta(now, tctx->tried_ns) < (s64)(POLICY_TRIAL_PERIOD_NS << tctx->nr_failed_trials)) {
		tctx->feeds_prompt = is_alone;
		return;
	}
	if (yields_to_fair(llc, use_level(p, tctx, now)))
		return;
	tctx->feeds_prompt = false;
	/* Until it has slept for more than it was given. */
	if (tctx->nr_failed_trials < POLICY_TRIAL_MAX_DOUBLINGS)
		tctx->nr_failed_trials++;
	tctx->tried_ns = now;
	goes_first_for_once(tctx);
}

/* A task has been woken: what it slept is credited, and its burst is over. */
VERIFIED_ONCE int credit_sleep(struct task_struct *p __arg_trusted, struct task_ctx *tctx, u64 now)
{
	s64 slept_ns;

	if (!tctx)
		return 0;
	slept_ns = tctx->slept_since_ns ? time_delta(now, tctx->slept_since_ns) : 0;

	charge_for(tctx, uncharged_ns(p, tctx));
	tctx->slept_since_ns = 0;
	/* Not one that waited for its own child, see inherit_from_child(). */
	tctx->slept_ns = slept_ns > 0 ? slept_ns : 0;
	tctx->last_sleep_ns = tctx->slept_ns;
	note_use(tctx, now);
	if (slept_ns > 0) {
		tctx->credit_ns = policy_credit_earned(tctx->credit_ns, earned_ns(p, tctx));
		if (tctx->slept_interruptibly)
			tctx->waits_for_child = false;
	}
	tctx->mean_burst_ns = policy_mean_burst(tctx->mean_burst_ns, tctx->last_burst_ns);
	tctx->uses_little = policy_uses_little(&tctx->use.of_all, tctx->mean_burst_ns);
	tctx->burst_kind = burst_kind(tctx->mean_burst_ns);
	tctx->yields = false;
	if (tctx->credit_ns >= POLICY_CREDIT_ENTER_NS)
		tctx->prompt = true;
	if (tctx->credit_ns > POLICY_TRIAL_NS)
		tctx->nr_failed_trials = 0;
	if (!may_be_prompt(p))
		tctx->credit_ns = 0;
	if (tctx->prompt && (tctx->credit_ns <= 0 || takes_turns_with_group(p, tctx, now)))
		stop_being_prompt(tctx, POLICY_CREDIT_ENTER_NS);
	tctx->due_ns = 0;
	if (tctx->prompt)
		yield_to_fair(tctx, tctx->llc, keep_deadline(p, tctx, 0, now));
	return 0;
}

/*
 * Charges what the task has run since it was charged last. From its CPU, while it runs or stops there, after the kernel has
 * brought its account up to date.
 */
VERIFIED_ONCE int charge(struct task_struct *p __arg_trusted, struct task_ctx *tctx, u32 llc, u64 now)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	s64 credit_ns;
	u64 ran_ns;

	if (!tctx || !llcx || !tctx->charged_until_ns)
		return 0;
	tctx->charged_until_ns = now;
	ran_ns = uncharged_ns(p, tctx);
	if (!ran_ns)
		return 0;
	credit_ns = tctx->credit_ns;
	charge_for(tctx, ran_ns);
	if (credit_ns > 0)
		earn_group_credit(tctx->group, now);
	/* It takes turns although it has some: that costs none. */
	if (tctx->yields)
		tctx->credit_ns = credit_ns;
	if (tctx->uses_little)
		__sync_fetch_and_add(&llcx->little_ran_ns[tctx->burst_kind & (POLICY_NR_BURST_KINDS - 1)], ran_ns);
	if (may_change_lead(llcx))
		change_lead(llc, ran_ns, tctx);
	if (tctx->prompt && tctx->credit_ns <= 0) {
		stop_being_prompt(tctx, POLICY_CREDIT_ENTER_NS);
		count_weight(tctx, llc);
	}
	return 0;
}

/*
 * The task begins to run, perhaps without having been in a DSQ, and perhaps in another LLC than it waited in. Where it began last it was
 * runnable, and was weighed then or not long before.
 */
VERIFIED_ONCE int begin_to_charge(struct task_struct *p __arg_trusted, struct task_ctx *tctx, u32 llc, u64 last_began_ns, u64 now)
{
	struct llc_ctx *llcx = llc_ctx(llc);

	if (!llcx || !tctx)
		return 0;
	if (!READ_ONCE(tctx->counted)) {
		if ((last_began_ns ^ now) < WEIGHED_FOR_NS)
			return_to_group(p, tctx, now);
		else
			weigh(p, tctx, now);
	}
	place_in_virtual_time(tctx, llc);
	tctx->charged_until_ns = now;
	count_weight(tctx, llc);
	if (!tctx->prompt)
		advance_clock(llcx, tctx->vruntime, now);
	return 0;
}

/* It stops; if it is not runnable, it sleeps. */
static __always_inline void end_to_charge(struct task_struct *p, struct task_ctx *tctx, const struct cpu_ctx *cpuc, u64 now,
					  bool runnable)
{
	const struct llc_ctx *llcx;

	charge(p, tctx, cpuc->llc, now);
	tctx->charged_until_ns = 0;
	if (runnable)
		return;
	tctx->slept_since_ns = now;
	tctx->slept_interruptibly = sleeps_interruptibly(p);
	llcx = llc_ctx(cpuc->llc);
	tctx->rivals_weight = llcx ? runnable_weight(llcx) : 0;
	tctx->use.slept_system_clock = llcx ? READ_ONCE(llcx->system_clock) : 0;
	tctx->use.slept_clock = llcx ? READ_ONCE(llcx->clock) : 0;
	uncount_weight(tctx, now);
}

#endif /* SCHERZO_CREDIT_BPF_H */
