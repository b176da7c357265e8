/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * use.bpf.h: what each task uses beside others (policy_use.h), and what follows from that: how it ranks among the prompt, and who goes
 * before all of them.
 *
 * A task's use is brought up to date when it wakes, on one CPU. The clock of all that are runnable is moved on at ticks, by the CPU that
 * wins a compare-and-swap.
 */
#ifndef SCHERZO_USE_BPF_H
#define SCHERZO_USE_BPF_H

#include "control.bpf.h"
#include "state.bpf.h"

/*
 * At the end of a burst and the sleep after it. Where no task takes turns the clock stands still, and nothing is used of what others want.
 */
VERIFIED_ONCE int note_use(struct task_ctx *tctx, u64 now)
{
	const struct llc_ctx *llcx = tctx ? llc_ctx(tctx->llc) : NULL;
	u64 children_vran_ns;

	if (!tctx)
		return 0;
	children_vran_ns = READ_ONCE(tctx->use.children_vran_ns);
	tctx->use.vran_ns += children_vran_ns - tctx->use.noted_children_vran_ns;
	tctx->use.noted_children_vran_ns = children_vran_ns;
	if (llcx) {
		u64 system_clock = READ_ONCE(llcx->system_clock), clock = READ_ONCE(llcx->clock);

		if (READ_ONCE(llcx->fair_weight) > 0)
			policy_use_more(&tctx->use.of_fair, tctx->use.vran_ns, clock - tctx->use.seen_clock, now);
		policy_use_more(&tctx->use.of_all, tctx->use.vran_ns, system_clock - tctx->use.seen_system_clock, now);
		tctx->use.seen_system_clock = system_clock;
		tctx->use.seen_clock = clock;
	}
	tctx->use.vran_ns = 0;
	return 0;
}

/* Of two times on one of the virtual clocks. */
static __always_inline u64 later(u64 one, u64 two)
{
	return signed_delta(one, two) > 0 ? one : two;
}

/*
 * The task is woken by one that ran briefly and is about to sleep. While that one was runnable, this one waited for it, and was not
 * absent: what the clocks advanced then counts for neither of its comparisons. Of two that pass messages each sleeps for half of the
 * time, and would otherwise seem to use half of what they use together. Before the sleep is credited.
 */
VERIFIED_ONCE int leave_out_waker(struct task_ctx *tctx)
{
	const struct cpu_ctx *waker_cpuc = cpu_ctx(bpf_get_smp_processor_id());
	const struct llc_ctx *llcx = tctx ? llc_ctx(tctx->llc) : NULL;

	if (!waker_cpuc || !waker_cpuc->burst_from_ns || !llcx || waker_cpuc->llc != tctx->llc)
		return 0;
	tctx->use.seen_system_clock += READ_ONCE(llcx->system_clock) -
				       later(tctx->use.slept_system_clock, waker_cpuc->seen_system_clock);
	tctx->use.seen_clock += READ_ONCE(llcx->clock) - later(tctx->use.slept_clock, waker_cpuc->seen_clock);
	return 0;
}

/* What is runnable in an LLC weighs so much. */
static __always_inline s64 runnable_weight(const struct llc_ctx *llcx)
{
	return READ_ONCE(llcx->fair_weight) + READ_ONCE(llcx->prompt_weight);
}

/* By itself, as what follows would else be verified for each kind. */
VERIFIED_ONCE u32 burst_kind(u64 mean_burst_ns)
{
	return policy_burst_kind(mean_burst_ns);
}

/*
 * Of the tasks of an LLC that use little each, those with the briefest bursts may go before all others, as long as they take little together.
 * Of the light ones, the lightest may go before those that take turns, whatever the others have had. By the CPU that moves the clock on.
 */
VERIFIED_ONCE int measure_little(u32 llc, u64 nr_cpus, u64 now)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	u32 kind, nr_barred = 0;
	u64 ran_ns = 0;
	s64 passed_ns;

	if (!llcx)
		return 0;
	passed_ns = time_delta(now, llcx->little_measured_at_ns);
	if (passed_ns < (s64)POLICY_LITTLE_PERIOD_NS)
		return 0;
	for (kind = 0; kind < POLICY_NR_BURST_KINDS; kind++) {
		u64 so_far_ns = READ_ONCE(llcx->little_ran_ns[kind]);

		ran_ns += so_far_ns - llcx->measured_little_ns[kind];
		llcx->measured_little_ns[kind] = so_far_ns;
		nr_barred += policy_little_is_much(ran_ns, passed_ns, nr_cpus);
	}
	WRITE_ONCE(llcx->nr_little_barred, nr_barred);
	ran_ns = 0;
	nr_barred = 0;
	for (kind = POLICY_NR_LIGHT_KINDS; kind-- > 0;) {
		u64 so_far_ns = READ_ONCE(llcx->ran_of_level_ns[POLICY_USE_LIGHT + kind]);

		ran_ns += so_far_ns - llcx->measured_light_ns[kind];
		llcx->measured_light_ns[kind] = so_far_ns;
		nr_barred += policy_light_is_much(ran_ns, passed_ns, nr_cpus);
	}
	WRITE_ONCE(llcx->nr_light_spared, POLICY_NR_LIGHT_KINDS - nr_barred);
	llcx->little_measured_at_ns = now;
	return 0;
}

/*
 * The system virtual time of an LLC (I. Stoica, H. Abdel-Wahab, EEVDF, 1995): it advances by what each of those that are runnable would
 * get now, whether it is prompt or not. One CPU does that, and not at each tick.
 */
VERIFIED_ONCE int pass_system_clock(u32 llc, u64 now)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	s64 passed_ns;
	u64 since_ns, nr_cpus;

	if (!llcx)
		return 0;
	since_ns = READ_ONCE(llcx->system_clock_at_ns);
	passed_ns = time_delta(now, since_ns);
	if (passed_ns < (s64)POLICY_SYSTEM_PERIOD_NS ||
	    __sync_val_compare_and_swap(&llcx->system_clock_at_ns, since_ns, now) != since_ns)
		return 0;
	nr_cpus = cpus_per_llc();
	llcx->system_clock += policy_system_clock_passes(passed_ns, runnable_weight(llcx), nr_cpus);
	measure_little(llc, nr_cpus, now);
	return 0;
}

/*
 * Beside all others the task uses less than its share, as far as is known: not of one that may not use all CPUs, nor where messages
 * gather for it.
 */
static __always_inline bool is_light(const struct task_struct *p, const struct task_ctx *tctx, const struct scherzo_control *page)
{
	return !tctx->gathers && p->nr_cpus_allowed >= (s64)page->nr_online_cpus && policy_is_light(&tctx->use.of_all);
}

/* It goes before all others if it is light: it used little when it was woken, and its kind has not had too much. */
static __always_inline bool may_go_first(const struct task_ctx *tctx)
{
	const struct llc_ctx *llcx = llc_ctx(tctx->llc);

	return tctx->uses_little && llcx && tctx->burst_kind + READ_ONCE(llcx->nr_little_barred) < POLICY_NR_BURST_KINDS;
}

/* It uses so little beside all others that it goes before them, as long as all such tasks take little together. */
VERIFIED_ONCE int goes_first(const struct task_struct *p __arg_trusted, const struct task_ctx *tctx)
{
	const struct scherzo_control *page = control_page();

	return page && tctx && may_go_first(tctx) && is_light(p, tctx, page);
}

/*
 * A task that may not use all CPUs counts as heavy: how many others want those that it may use is not known. Who uses less than its share
 * beside all that are runnable is light, whatever those have had that take turns: these may have had little because of others. Where nobody
 * takes turns nothing is used of what others want, whatever was used before.
 */
VERIFIED_ONCE u32 use_level(const struct task_struct *p __arg_trusted, const struct task_ctx *tctx, u64 now)
{
	const struct scherzo_control *page = control_page();
	const struct llc_ctx *llcx;
	struct policy_use use;

	if (!page || !tctx || p->nr_cpus_allowed < (s64)page->nr_online_cpus)
		return POLICY_USE_HEAVY;
	llcx = llc_ctx(tctx->llc);
	if (is_light(p, tctx, page))
		return may_go_first(tctx) ? POLICY_USE_LITTLE : policy_light_level(&tctx->use.of_all);
	if (!llcx || READ_ONCE(llcx->fair_weight) <= 0)
		return POLICY_USE_MODEST;
	use = tctx->use.of_fair;
	policy_use_more(&use, tctx->use.vran_ns, READ_ONCE(llcx->clock) - tctx->use.seen_clock, now);
	return policy_use_level(&use);
}

#endif /* SCHERZO_USE_BPF_H */
