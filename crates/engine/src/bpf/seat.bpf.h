/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * seat.bpf.h: the policy (policy.h) at work: where a task waits, and which one a CPU picks.
 *
 * Two seats. Each task that must wait has its account brought up to date here (take_account()), and a turn decided by
 * that (policy_turn_of()): by BPF, or by user space, which is sent the account. Either way it is queued here
 * (queue_by_policy()), so all that follows is the same. None of it is used where a policy for study is in force.
 *
 * A task enters one of two DSQs of its LLC: the prompt by deadline, the others by weighted virtual runtime. Tasks that
 * may run on one CPU only have two such DSQs of their CPU, in the same order, and a CPU picks the earlier head.
 *
 * In fifo no task goes first: all are queued by virtual runtime, where a task that slept starts at the clock at most.
 * Among tasks of equal weight that is the order of arrival, and the others get their shares: start-time fair queueing
 * (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996). A prompt task may still preempt one that is not, unless preemption is
 * off.
 *
 * In low-power the CPUs that are to sleep take no task that is not prompt, unless it may run on no other CPU or has
 * waited in vain.
 */
#ifndef SCHERZO_SEAT_BPF_H
#define SCHERZO_SEAT_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "credit.bpf.h"
#include "kind.bpf.h"
#include "lead.bpf.h"
#include "overdue.bpf.h"
#include "place.bpf.h"

/* How a dispatch picks: which order counts, and whether this CPU may take batch work at all. */
#define PICK_FIFO 0x1 /* arrival order is the one in force */
#define PICK_BATCH 0x2 /* not where low-power wants the CPU to sleep */

/* A prompt task waits that is due before this one would be. */
static __always_inline bool is_preceded(const struct task_ctx *tctx, u32 llc)
{
	u64 head = 0;

	return head_vtime(DSQ_ID(DSQ_PROMPT, llc), &head) && signed_delta(head, tctx->due_ns) < 0;
}

/*
 * The task must wait in the DSQ although there is a CPU that it could take: another prompt task is due before it, or
 * the prompt of its LLC have had more than leaves the others half of their share, and it is not one of those that keep to
 * what they may have.
 */
static __always_inline bool must_not_preempt(const struct task_ctx *tctx, u32 llc)
{
	return is_preceded(tctx, llc) || yields_to_fair(llc, tctx->due_ns);
}

/* The task on the CPU started further ahead in virtual time than lets the one that wakes wait for it. */
static __always_inline bool is_ahead(const struct cpu_ctx *cpuc, u64 vruntime)
{
	u64 started_at = READ_ONCE(cpuc->victim_deadline);

	return started_at && signed_delta(started_at, vruntime) > 0;
}

/*
 * A task without credit that wakes, and is queued: it takes its CPU, or the one where the task started that is furthest
 * ahead, if that is clearly ahead of it. A heavy task that naps would otherwise wait for a slice of a light one after
 * each nap.
 */
VERIFIED_ONCE int preempt_by_share(struct task_struct *p __arg_trusted, s32 cpu)
{
	const struct task_ctx *tctx = task_ctx(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 vruntime;

	if (!tctx || !cpuc || !may_be_prompt(p))
		return false;
	vruntime = tctx->vruntime + policy_virtual_ns(POLICY_WAKE_LEAD_NS, tctx->weight);
	if (!is_ahead(cpuc, vruntime)) {
		if (is_pinned(p))
			return false;
		cpu = pick_victim(p, cpuc->llc);
		cpuc = cpu_ctx(cpu);
	}
	if (!cpuc || !is_ahead(cpuc, vruntime) || !try_preempt(cpuc))
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* CPUs looked at for a prompt task that has run for long. */
#define NR_LONGER_SAMPLES 16

/*
 * Where every CPU runs a prompt task, one of the LLC that has been at it for longer than this one was the last time gives
 * way. If another task precedes this one, only one that has had its CPU for POLICY_SLIP_IN_TIMES as long without a break, or for as
 * long if this one uses less than its share: many that follow one another would otherwise never let a longer one run. What goes before
 * all others does not wait until the other has run for a while.
 */
VERIFIED_ONCE s32 interrupt_any_longer(struct task_struct *p __arg_trusted, s32 prev_cpu, bool preceded)
{
	u32 step, nr = nr_cpu_slots < NR_LONGER_SAMPLES ? nr_cpu_slots : NR_LONGER_SAMPLES;
	const struct scherzo_control *page = control_page();
	const struct task_ctx *tctx = task_ctx(p);
	u64 least_ns = 0, burst_min_ns = BURST_MIN_NS, now = clock_now();
	u32 llc = cpu_llc(prev_cpu);

	if (!tctx || !page)
		return -1;
	if (goes_first(p, tctx))
		burst_min_ns = 0;
	else if (preceded && is_light(p, tctx, page))
		least_ns = tctx->mean_burst_ns < BURST_MIN_NS ? tctx->mean_burst_ns : BURST_MIN_NS;
	else if (preceded)
		least_ns = tctx->mean_burst_ns * POLICY_SLIP_IN_TIMES;
	bpf_for(step, 0, nr) {
		s32 cpu = prev_cpu + step;
		struct cpu_ctx *cpuc;

		if (cpu >= nr_cpu_slots)
			cpu -= nr_cpu_slots;
		cpuc = cpu_ctx(cpu);
		if (cpuc && cpuc->llc == llc && time_delta(now, READ_ONCE(cpuc->run_began_ns)) >= (s64)least_ns &&
		    interrupts_longer(p, tctx, cpu, burst_min_ns))
			return cpu;
	}
	return -1;
}

/* The LLC whose queues a task enters. */
static __always_inline u32 queue_llc(struct task_struct *p, const struct task_ctx *tctx, struct control_word word)
{
	u32 klass = tctx->prompt ? SCHERZO_CLASS_INTERACTIVE : SCHERZO_CLASS_BATCH;

	return is_pinned(p) ? cpu_llc(scx_bpf_task_cpu(p)) : target_llc(p, word, klass);
}

/*
 * Brings the account of a task up to date that waits from now on, and says what its turn depends on. User space has the
 * tasks in flight: they wait like those in the DSQ.
 */
VERIFIED_ONCE int take_account(struct task_struct *p __arg_trusted, struct task_ctx *tctx, u32 llc,
			       struct policy_account *account)
{
	const struct llc_ctx *llcx = llc_ctx(llc);
	u64 now = clock_now();
	s64 nr_others;

	if (!llcx || !tctx || !account)
		return false;
	stop_yielding(p, tctx, llc, now);
	begin_trial(p, tctx, llc, now);
	if (tctx->prompt)
		yield_to_fair(tctx, llc, keep_deadline(p, tctx, tctx->burst_ns, now));
	weigh(p, tctx, now);
	place_in_virtual_time(tctx, llc);
	count_weight(tctx, llc);
	nr_others = READ_ONCE(llcx->nr_fair) + READ_ONCE(nr_in_flight) / nr_llcs;
	account->vruntime = tctx->vruntime;
	/* Among those that take turns it comes as much later. */
	if (tctx->gathers)
		account->vruntime += policy_virtual_ns(POLICY_MESSAGES_GATHER_NS, tctx->weight);
	account->credit_ns = tctx->credit_ns > 0 ? tctx->credit_ns : 0;
	account->due_ns = tctx->prompt ? tctx->due_ns : 0;
	account->max_lag = max_lag_of(llcx, tctx);
	account->weight = tctx->weight;
	account->nr_others = nr_others > 0 ? nr_others / cpus_per_llc() : 0;
	account->prompt = tctx->prompt;
	account->asked_slice_us = asked_slice_us(p);
	return true;
}

/* Where a task waits that has taken its account, by the turn that was decided. */
static __always_inline u64 dsq_of_turn(struct task_struct *p, const struct task_ctx *tctx, struct control_word word, bool first)
{
	u32 klass = tctx->prompt ? SCHERZO_CLASS_INTERACTIVE : SCHERZO_CLASS_BATCH;
	s32 cpu = scx_bpf_task_cpu(p);

	if (is_pinned(p) || (needs_sleeping_cpu(p, word, klass) && may_run_on(p, cpu)))
		return DSQ_ID(first ? DSQ_CPU_PROMPT : DSQ_CPU_FAIR, cpu);
	return DSQ_ID(first ? DSQ_PROMPT : DSQ_FAIR, tctx->llc);
}

/* A task's turn, as BPF decides by itself. False if nothing is known of the task's LLC. */
static __always_inline bool decide_turn(struct task_struct *p, struct task_ctx *tctx, const struct scherzo_control *page,
					struct control_word word, struct policy_turn *turn)
{
	struct policy_account account;

	if (!take_account(p, tctx, queue_llc(p, tctx, word), &account))
		return false;
	*turn = policy_turn_of(&account, default_slice_ns(page), word.order == SCHERZO_ORDER_FIFO);
	return true;
}

/*
 * Queues a task by the turn that was decided, or as BPF decides if that is NULL. Returns the class as which it waits
 * for any CPU of its LLC, for kick_queued(); SCHERZO_CLASS_KERNEL if no CPU need be woken for it any more. The caller
 * arms the watchdog timer.
 */
VERIFIED_ONCE u32 queue_by_policy(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags, const struct policy_turn *decided)
{
	const struct scherzo_control *page = control_page();
	struct control_word word = word_of(bits);
	struct task_ctx *tctx = task_ctx(p);
	struct policy_turn turn = {};
	u64 dsq_id;

	if (decided)
		turn = *decided;
	if (!page || !tctx || (!decided && !decide_turn(p, tctx, page, word, &turn))) {
		insert_by_arrival(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return SCHERZO_CLASS_KERNEL;
	}
	tctx->timed = turn.timed;
	dsq_id = dsq_of_turn(p, tctx, word, turn.first);
	insert(p, tctx, dsq_id, turn.slice_ns, turn.vtime, enq_flags);
	if (is_cpu_dsq(dsq_id >> 32)) {
		scx_bpf_kick_cpu(dsq_id, SCX_KICK_IDLE);
		return SCHERZO_CLASS_KERNEL;
	}
	return tctx->prompt ? SCHERZO_CLASS_INTERACTIVE : SCHERZO_CLASS_BATCH;
}

/*
 * A task was queued, and no CPU idles: it takes one from another task if it may. One that has credit may unless its
 * wake-up has tried to; one that has none, if it was woken and is clearly behind.
 */
static __always_inline void preempt_for_queued(struct task_struct *p, const struct task_ctx *tctx, struct control_word word,
					       bool woken, bool has_tried)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (!word.preemption)
		return;
	if (!tctx->prompt) {
		if (woken && word.order != SCHERZO_ORDER_FIFO)
			preempt_by_share(p, cpu);
		return;
	}
	if (has_tried || is_pinned(p) || yields_to_fair(cpu_llc(cpu), tctx->due_ns))
		return;
	cpu = preempt_cpu(p, cpu);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The earlier of the CPU's own and the LLC's head goes first; those of one kind are comparable. */
static __always_inline bool take_earlier(enum dsq_kind own_kind, s32 cpu, enum dsq_kind shared_kind, u32 llc)
{
	u64 own = 0, shared = 0;

	if (head_vtime(DSQ_ID(own_kind, cpu), &own) &&
	    (!head_vtime(DSQ_ID(shared_kind, llc), &shared) || signed_delta(own, shared) <= 0) && take_from(own_kind, cpu))
		return true;
	return take_from(shared_kind, llc) || take_from(own_kind, cpu);
}

static __always_inline bool has_seat_work(u32 llc, s32 cpu)
{
	return nr_queued(DSQ_PROMPT, llc) || nr_queued(DSQ_FAIR, llc) || nr_queued(DSQ_CPU_PROMPT, cpu) ||
	       nr_queued(DSQ_CPU_FAIR, cpu);
}

/* The same for the DSQs of policies for study, and those that have to do with one CPU only. */
static __always_inline bool has_other_work(u32 llc, s32 cpu)
{
	return nr_queued(DSQ_INTERACTIVE, llc) || nr_queued(DSQ_BATCH, llc) || nr_queued(DSQ_FIFO, llc) ||
	       nr_queued(DSQ_CPU, cpu);
}

/* The DSQ has a task that is due before this dsq_vtime. */
static __always_inline bool is_due_before(enum dsq_kind kind, u32 index, u64 dsq_vtime)
{
	u64 head = 0;

	return head_vtime(DSQ_ID(kind, index), &head) && signed_delta(head, dsq_vtime) < 0;
}

/* The DSQ of an LLC has a task that is due before this dsq_vtime, and that this CPU may take. */
static __always_inline bool is_due_here_before(enum dsq_kind kind, u32 llc, s32 cpu, u64 dsq_vtime)
{
	u64 first = 0;

	return first_vtime(DSQ_ID(kind, llc), cpu, &first) && signed_delta(first, dsq_vtime) < 0;
}

/* A task that is in no DSQ comes before all that wait for this CPU. */
static __always_inline bool precedes_queued(struct task_struct *p, struct task_ctx *tctx, u32 llc, s32 cpu, u64 now)
{
	if (nr_queued(DSQ_PROMPT, llc) || nr_queued(DSQ_CPU_PROMPT, cpu)) {
		u64 due_ns;

		if (!tctx->prompt)
			return false;
		due_ns = keep_deadline(p, tctx, tctx->burst_ns + time_delta(now, tctx->started_ns), now);
		if (is_due_here_before(DSQ_PROMPT, llc, cpu, due_ns) || is_due_before(DSQ_CPU_PROMPT, cpu, due_ns))
			return false;
	}
	if (tctx->prompt)
		return !yields_to_fair(llc, tctx->due_ns);
	return !is_due_here_before(DSQ_FAIR, llc, cpu, tctx->vruntime) && !is_due_before(DSQ_CPU_FAIR, cpu, tctx->vruntime);
}

/*
 * A task that was preempted may finish its slice: no prompt task waits, and none that it is ahead of by as much as makes a task
 * that wakes preempt another.
 */
static __always_inline bool may_finish_slice(const struct task_ctx *tctx, u32 llc, s32 cpu)
{
	u64 vruntime = tctx->vruntime - POLICY_WAKE_LEAD_NS;

	return !nr_queued(DSQ_PROMPT, llc) && !nr_queued(DSQ_CPU_PROMPT, cpu) && !is_due_here_before(DSQ_FAIR, llc, cpu, vruntime) &&
	       !is_due_before(DSQ_CPU_FAIR, cpu, vruntime);
}

/*
 * The kernel asks for the next task before it puts the one that has used up its slice, so that one is in no DSQ yet:
 * without a look at it here it would never be picked while others wait, and weights would lose their meaning among few
 * tasks.
 */
VERIFIED_ONCE int prev_goes_on(struct task_struct *prev __arg_trusted, s32 cpu)
{
	struct task_ctx *tctx = task_ctx(prev);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 now = clock_now();
	struct llc_ctx *llcx;
	u32 llc;

	if (!tctx || !cpuc || is_engine(prev) || READ_ONCE(engine_waits))
		return false;
	llc = cpuc->llc;
	llcx = llc_ctx(llc);
	charge(prev, tctx, llc, now);
	weigh(prev, tctx, now);
	if (!llcx || (tctx->prompt && overdue_dsq(llc, cpu, now)) || !precedes_queued(prev, tctx, llc, cpu, now))
		return false;
	if (!tctx->prompt)
		advance_clock(llcx, tctx->vruntime, now);
	return true;
}

/* A look at the other LLCs for every so many picks. */
#define PICKS_PER_BALANCE 8
/* How often an LLC's room for the others is measured. */
#define ROOM_PERIOD_NS (32 * NSEC_PER_MSEC)
/* A whole CPU. */
#define ROOM_OF_CPU 1024ULL

/* What of the LLC's CPUs the prompt have left to the others lately: where they take much, fewer others have room. */
static __always_inline void measure_fair_room(struct llc_ctx *llcx, u64 nr_cpus, u64 now)
{
	u64 since_ns = READ_ONCE(llcx->measured_at_ns), prompt_ns = READ_ONCE(llcx->prompt_ran_ns);
	s64 passed_ns = time_delta(now, since_ns);
	u64 taken;

	if (passed_ns < (s64)ROOM_PERIOD_NS || __sync_val_compare_and_swap(&llcx->measured_at_ns, since_ns, now) != since_ns)
		return;
	taken = (prompt_ns - llcx->measured_prompt_ns) * ROOM_OF_CPU / (u64)passed_ns;
	if (taken > (nr_cpus - 1) * ROOM_OF_CPU)
		taken = (nr_cpus - 1) * ROOM_OF_CPU;
	WRITE_ONCE(llcx->measured_prompt_ns, prompt_ns);
	WRITE_ONCE(llcx->fair_room, nr_cpus * ROOM_OF_CPU - taken);
}

/* The weight of those that are not prompt, for as much room as a whole LLC has. */
static __always_inline s64 crowding(const struct llc_ctx *llcx, u64 nr_cpus)
{
	u64 room = READ_ONCE(llcx->fair_room), whole = nr_cpus * ROOM_OF_CPU;
	s64 weight = READ_ONCE(llcx->fair_weight);

	return weight > 0 && room ? weight * whole / room : weight;
}

/* What a task there weighs in that measure: of those that wait, and of those that run on what the prompt leave of the CPUs. */
static __always_inline s64 crowding_of_task(const struct llc_ctx *llcx, u64 nr_cpus)
{
	u64 room = READ_ONCE(llcx->fair_room) ?: nr_cpus * ROOM_OF_CPU;
	s32 nr_waiting = READ_ONCE(llcx->nr_fair);

	return crowding(llcx, nr_cpus) * ROOM_OF_CPU / ((nr_waiting > 0 ? nr_waiting : 0) * ROOM_OF_CPU + room);
}

/*
 * Takes a task from the most crowded LLC, if that makes the two more alike: it becomes less crowded by what a task weighs there, and
 * this one more by what it weighs here, so the difference must be more than half of both, and an eighth more for good measure. A task
 * that computes stays in the LLC that it woke up in, and nothing else would make LLCs alike.
 */
VERIFIED_ONCE int pull_from_busier(u32 own_llc)
{
	struct llc_ctx *own = llc_ctx(own_llc);
	u32 llc, busiest = own_llc;
	s64 own_crowding, own_task, most = 0;
	u64 nr_cpus;

	if (!own)
		return false;
	nr_cpus = cpus_per_llc();
	measure_fair_room(own, nr_cpus, clock_now());
	own_crowding = crowding(own, nr_cpus);
	own_task = crowding_of_task(own, nr_cpus);
	bpf_for(llc, 0, nr_llcs) {
		const struct llc_ctx *other = llc_ctx(llc);

		s64 more = other ? crowding(other, nr_cpus) - own_crowding : 0;

		if (more <= most || !nr_queued(DSQ_FAIR, llc) || 8 * more < 5 * (crowding_of_task(other, nr_cpus) + own_task))
			continue;
		most = more;
		busiest = llc;
	}
	if (busiest == own_llc || !take_from(DSQ_FAIR, busiest))
		return false;
	count(SCHERZO_CNT_STOLEN);
	return true;
}

/*
 * The first of those that are not prompt has been the first for longer than it should: no CPU that stays awake takes
 * it. As the watchdog timer has seen it.
 */
VERIFIED_ONCE int fair_is_late(u32 llc, u64 now)
{
	const struct scherzo_control *page = control_page();
	const struct llc_ctx *llcx = llc_ctx(llc);

	return page && llcx && nr_queued(DSQ_FAIR, llc) && llcx->fair_head.pid &&
	       time_delta(now, llcx->fair_head.since_ns) > (s64)READ_ONCE(page->starvation_limit_ns);
}

/* On a CPU that low-power wants asleep. */
static __always_inline bool take_on_sleeping_cpu(u32 llc, s32 cpu)
{
	return take_earlier(DSQ_CPU_PROMPT, cpu, DSQ_PROMPT, llc) || take_from(DSQ_CPU_FAIR, cpu) ||
	       (fair_is_late(llc, clock_now()) && take_from(DSQ_FAIR, llc));
}

/*
 * Although the others are owed twice what they may be: the first prompt task uses no more than its share, or has waited
 * for POLICY_PROMPT_TURN_NS. What the others are owed is worked off in proportion to the weights, which takes minutes beside
 * thousands of tasks.
 */
VERIFIED_ONCE int is_turn_of_prompt(s32 cpu, u64 now)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 since_ns = now - POLICY_PROMPT_TURN_NS, own = now & ~POLICY_USE_MASK, shared = own;

	if (!cpuc)
		return false;
	head_vtime(DSQ_ID(DSQ_PROMPT, cpuc->llc), &shared);
	head_vtime(DSQ_ID(DSQ_CPU_PROMPT, cpu), &own);
	if (!yields_to_fair(cpuc->llc, shared) || !yields_to_fair(cpuc->llc, own))
		return true;
	if (signed_delta(cpuc->prompt_turn_ns, since_ns) > 0 ||
	    (signed_delta(shared, since_ns) >= 0 && signed_delta(own, since_ns) >= 0))
		return false;
	cpuc->prompt_turn_ns = now;
	return true;
}

/*
 * From the DSQs of the policy: the prompt first. Those that have had more than they may while the others are owed are not among them
 * (yield_to_fair()), but for some that were queued before that.
 */
VERIFIED_ONCE int take_by_policy(u32 llc, s32 cpu, u32 how)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc || !has_seat_work(llc, cpu))
		return false;
	if (!(how & PICK_BATCH))
		return take_on_sleeping_cpu(llc, cpu);
	if (take_overdue(cpuc, llc, cpu))
		return true;
	if (nr_llcs > 1 && cpuc->llc == llc && cpuc->turn_balance++ % PICKS_PER_BALANCE == 0 &&
	    !nr_queued(DSQ_PROMPT, llc) && pull_from_busier(llc))
		return true;
	if (is_fair_long_owed(llc) && !is_turn_of_prompt(cpu, clock_now()) && take_earlier(DSQ_CPU_FAIR, cpu, DSQ_FAIR, llc))
		return true;
	return take_earlier(DSQ_CPU_PROMPT, cpu, DSQ_PROMPT, llc) || take_earlier(DSQ_CPU_FAIR, cpu, DSQ_FAIR, llc);
}

#endif /* SCHERZO_SEAT_BPF_H */
