/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * preempt.bpf.h: a task takes a CPU from one that is running there.
 *
 * A CPU publishes in cpu_ctx.victim_deadline that its task may be preempted, and how late that task is due. The wake-up
 * that swaps the word for zero has that CPU next, so it is taken once, without a lock. The swap says nothing about the
 * task that runs there by the time the CPU reschedules: if another has been picked meanwhile, that one gives way, and
 * is queued again with the rest of its slice.
 */
#ifndef SCHERZO_PREEMPT_BPF_H
#define SCHERZO_PREEMPT_BPF_H

#include "control.bpf.h"
#include "idle.bpf.h"

/* CPUs looked at in each word of the bitmap: the one with the latest deadline among them is taken. */
#define NR_VICTIM_SAMPLES 8

static __always_inline bool try_preempt(struct cpu_ctx *cpuc)
{
	u64 victim_deadline = READ_ONCE(cpuc->victim_deadline);

	return victim_deadline && __sync_val_compare_and_swap(&cpuc->victim_deadline, victim_deadline, 0) == victim_deadline;
}

/*
 * The CPU runs nothing that may be preempted: its bit is cleared, so that the next wake-ups do not look at it in vain.
 * The CPU that publishes a task writes the deadline before it looks at the bit, and this one clears the bit before it
 * looks at the deadline, so one of them sets the bit again. The value of the atomic is used, because one whose value is
 * not used orders nothing on some architectures.
 */
static __always_inline void clear_preemptible(struct cpu_ctx *cpuc, u64 *preemptible, u64 bit)
{
	if (__sync_fetch_and_and(preemptible, ~bit) & bit && cpuc && READ_ONCE(cpuc->victim_deadline))
		__sync_fetch_and_or(preemptible, bit);
}

/* This CPU is a better one to take than the best so far: a fast core instead of a slow one, else a later deadline. */
static __always_inline bool is_better_victim(const struct cpu_ctx *cpuc, u64 victim_deadline, s32 best, u64 latest)
{
	const struct cpu_ctx *best_cpuc = cores_differ ? cpu_ctx(best) : NULL;

	if (best_cpuc && best_cpuc->slow != cpuc->slow)
		return best_cpuc->slow;
	return best < 0 || time_after(victim_deadline, latest);
}

/*
 * The CPU of the task's LLC with the latest deadline among a sample of those that run batch work, a fast core's before a
 * slow one's; -1 if none.
 */
VERIFIED_ONCE s32 pick_victim(struct task_struct *p __arg_trusted, u32 llc)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	u64 latest = 0;
	s32 best = -1;
	u32 word;
	int sample;

	if (!llcx)
		return -1;
	bpf_for(word, 0, NR_CPU_WORDS) {
		u64 *preemptible = &llcx->preemptible[word & (NR_CPU_WORDS - 1)];
		u64 bits = READ_ONCE(*preemptible);

		bpf_for(sample, 0, NR_VICTIM_SAMPLES) {
			struct cpu_ctx *cpuc;
			u64 victim_deadline;
			s32 cpu;

			if (!bits)
				break;
			cpu = word * 64 + ctzll(bits);
			cpuc = cpu_ctx(cpu);
			victim_deadline = cpuc ? READ_ONCE(cpuc->victim_deadline) : 0;
			if (!victim_deadline)
				clear_preemptible(cpuc, preemptible, bits & -bits);
			bits &= bits - 1;
			if (!victim_deadline || !may_run_on(p, cpu))
				continue;
			if (is_better_victim(cpuc, victim_deadline, best, latest)) {
				latest = victim_deadline;
				best = cpu;
			}
		}
		if ((word + 1) * 64 >= nr_cpu_slots)
			break;
	}
	return best;
}

/* Preempts a CPU of an LLC. Two tries, as others may do so at the same time. Returns -1 if nothing may be taken. */
VERIFIED_ONCE s32 preempt_in_llc(struct task_struct *p __arg_trusted, u32 llc)
{
	int attempt;

	bpf_for(attempt, 0, 2) {
		s32 cpu = pick_victim(p, llc);
		struct cpu_ctx *cpuc;

		if (cpu < 0)
			break;
		cpuc = cpu_ctx(cpu);
		if (cpuc && try_preempt(cpuc))
			return cpu;
	}
	return -1;
}

/*
 * Preempts a CPU that runs batch work: the one where the task was, since its cache is warm there, else the sample's
 * latest deadline. A task that was on a slow core looks where there are fast ones first. Returns -1 if nothing may be
 * taken.
 */
VERIFIED_ONCE s32 preempt_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);
	u32 llc = cpuc ? cpuc->llc : 0;
	s32 cpu;

	if (cores_differ && cpuc && cpuc->slow) {
		cpu = preempt_in_llc(p, fast_llc);
		if (cpu >= 0)
			return cpu;
	}
	if (cpuc && may_run_on(p, prev_cpu) && try_preempt(cpuc))
		return prev_cpu;
	return preempt_in_llc(p, llc);
}

/*
 * The task that runs there has run for longer than this one did the last time, each by its weight. Not if it is nearly as long as its last
 * burst, and would sleep before this one does: who gives work to a pool sleeps once all of it is given out, and would be interrupted by each
 * of the pool that it wakes. Nor if this one uses more of what others want: where more is asked than there are CPUs for, those with brief
 * bursts would have what they ask for, and a game the rest.
 */
static __always_inline bool has_run_longer(const struct cpu_ctx *cpuc, u64 ran_ns, const struct task_ctx *tctx)
{
	u32 running_weight = READ_ONCE(cpuc->burst_weight);

	if (ran_ns > POLICY_MAX_SPAN_NS)
		return true;
	if (policy_use_of_deadline(tctx->due_ns) < READ_ONCE(cpuc->burst_use))
		return false;
	if (ran_ns < cpuc->last_burst_ns && cpuc->last_burst_ns - ran_ns < tctx->last_burst_ns)
		return false;
	return ran_ns * tctx->own_weight > tctx->last_burst_ns * running_weight;
}

/*
 * The CPU where the task was runs interactive work that has been at it for longer than the task was the last time, and for at least
 * so long: the task is let through, and the other goes on after it. The task that has run least goes first, as in the
 * foreground-background discipline (L. Kleinrock, Queueing Systems II, 1976).
 */
static __always_inline bool interrupts_longer(struct task_struct *p, const struct task_ctx *tctx, s32 prev_cpu, u64 least_ns)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);
	u64 since = cpuc ? READ_ONCE(cpuc->burst_since_ns) : 0;
	s64 ran_ns;

	if (!since)
		return false;
	ran_ns = time_delta(clock_now(), since);
	if (ran_ns < (s64)least_ns || !has_run_longer(cpuc, ran_ns, tctx) || !may_run_on(p, prev_cpu) ||
	    __sync_val_compare_and_swap(&cpuc->burst_since_ns, since, 0) != since)
		return false;
	WRITE_ONCE(cpuc->makes_room, true);
	return true;
}

/* How long a task must have run the last time at most to be worth waiting for, rather than to take another CPU. */
#define WORTH_WAITING_NS (50 * NSEC_PER_USEC)
/* What it takes until a CPU that was taken from batch work runs the task that took it. */
#define TAKEOVER_NS (20 * NSEC_PER_USEC)

/* The task has the CPU from then on. */
static __always_inline void note_brief(struct cpu_ctx *cpuc, const struct task_ctx *tctx, u64 from_ns)
{
	if (tctx->last_burst_ns < WORTH_WAITING_NS)
		WRITE_ONCE(cpuc->brief_until_ns, from_ns + tctx->last_burst_ns);
}

/* The task that was expected to sleep soon has run for ten times as long as that, while another waits for it here. */
static __always_inline bool outstays_brief(const struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	u64 until_ns = READ_ONCE(cpuc->brief_until_ns);

	return until_ns && signed_delta(now, until_ns) > (s64)(10 * WORTH_WAITING_NS) &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0;
}

/* Published when a batch task starts: this CPU may be taken from it. */
static __always_inline void publish_victim(struct cpu_ctx *cpuc, s32 cpu, u64 deadline_ns)
{
	struct llc_ctx *llcx = llc_ctx(cpuc->llc);
	u32 word = (u32)cpu / 64 & (NR_CPU_WORDS - 1);
	u64 bit = 1ULL << (cpu & 63);

	__sync_lock_test_and_set(&cpuc->victim_deadline, deadline_ns | 1);
	if (llcx && !(READ_ONCE(llcx->preemptible[word]) & bit))
		__sync_fetch_and_or(&llcx->preemptible[word], bit);
}

static __always_inline void retract_victim(struct cpu_ctx *cpuc)
{
	if (READ_ONCE(cpuc->victim_deadline))
		WRITE_ONCE(cpuc->victim_deadline, 0);
}

static __always_inline void withdraw_cpu(struct cpu_ctx *cpuc, s32 cpu)
{
	struct llc_ctx *llcx = llc_ctx(cpuc->llc);
	u32 word = (u32)cpu / 64;

	retract_victim(cpuc);
	if (llcx && word < NR_CPU_WORDS)
		__sync_fetch_and_and(&llcx->preemptible[word], ~(1ULL << (cpu & 63)));
}

/*
 * What is published of a task that runs, so that the one with the latest is preempted: its virtual runtime. Where a
 * policy for study is in force, the deadline that user space gave the task last, or now if it never did.
 */
static __always_inline u64 published_deadline_ns(const struct task_ctx *tctx, u64 now)
{
	const struct scherzo_slot *slot;

	if (!study_policy)
		return tctx->vruntime;
	slot = task_slot(tctx);
	return (slot ? READ_ONCE(slot->deadline_ns) : 0) ?: now;
}

#endif /* SCHERZO_PREEMPT_BPF_H */
