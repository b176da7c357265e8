/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dispatch.bpf.h: a CPU picks its next task.
 *
 * The kernel calls ops.dispatch with the run queue of the CPU locked, and unlocks it while a task is moved here from
 * the run queue of another CPU. So what was read before a move may have changed after it, and two CPUs that look at the
 * same DSQ may both find the task that only one of them gets; the other goes on to the next DSQ.
 */
#ifndef SCHERZO_DISPATCH_BPF_H
#define SCHERZO_DISPATCH_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "degraded.bpf.h"
#include "dispatched.bpf.h"
#include "kind.bpf.h"
#include "limits.bpf.h"
#include "offline.bpf.h"
#include "queue.bpf.h"
#include "seat.bpf.h"
#include "slices.bpf.h"

/* After a change of order the DSQs of the old one drain first for so long, then both take turns. */
#define DRAIN_FIRST_NS (250 * NSEC_PER_MSEC)

/*
 * The first batch task has waited for longer than the bound. Its deadline tells: that is the time of its arrival, give
 * or take half the bound.
 */
VERIFIED_ONCE int batch_is_late(u32 llc, u64 now)
{
	const struct scherzo_control *page = control_page();
	struct llc_ctx *llcx = llc_ctx(llc);
	u64 from_ns, deadline_ns = 0;
	s64 limit_ns;

	if (!page || !llcx)
		return false;
	limit_ns = READ_ONCE(page->starvation_limit_ns);
	from_ns = READ_ONCE(llcx->batch_from_ns);
	if (signed_delta(now, from_ns) <= limit_ns)
		return false;
	if (!head_vtime(DSQ_ID(DSQ_BATCH, llc), &deadline_ns))
		return false;
	if (deadline_ns != from_ns)
		__sync_val_compare_and_swap(&llcx->batch_from_ns, from_ns, deadline_ns);
	return signed_delta(now, deadline_ns) > limit_ns;
}

/* A task waits that comes before one which is about to get a CPU of this LLC without a look at the DSQs. */
static __always_inline bool others_are_due(u32 llc, u64 now)
{
	return READ_ONCE(engine_waits) || nr_queued(DSQ_FIFO, llc) ||
	       (nr_queued(DSQ_BATCH, llc) && batch_is_late(llc, now));
}

/*
 * Of a policy for study: interactive tasks first, batch tasks when there is none. A batch task that is late goes first
 * every other time, and then even on a CPU that low-power keeps asleep, since it may be allowed on no other.
 */
VERIFIED_ONCE int take_ordered(u32 llc, s32 cpu, u64 now, u32 how)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc)
		return false;
	if (nr_queued(DSQ_BATCH, llc) && batch_is_late(llc, now) && (cpuc->turn_late++ & 1) == 0 &&
	    take_from(DSQ_BATCH, llc)) {
		cpuc->late_pick = true;
		return true;
	}
	if (take_from(DSQ_INTERACTIVE, llc))
		return true;
	return how & PICK_BATCH && take_from(DSQ_BATCH, llc);
}

/*
 * From one LLC's DSQs of a policy for study. After a change of order those of the old order are emptied first; past
 * DRAIN_FIRST_NS both take turns.
 */
VERIFIED_ONCE int take_from_llc(u32 llc, s32 cpu, u64 now, u32 how)
{
	bool fifo_first = !(how & PICK_FIFO);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc)
		return false;
	if (time_delta(now, READ_ONCE(order_changed_ns)) > (s64)DRAIN_FIRST_NS && nr_queued(DSQ_FIFO, llc) &&
	    (nr_queued(DSQ_INTERACTIVE, llc) || nr_queued(DSQ_BATCH, llc)))
		fifo_first = cpuc->turn_order++ & 1;

	if (fifo_first)
		return take_from(DSQ_FIFO, llc) || take_ordered(llc, cpu, now, how);
	return take_ordered(llc, cpu, now, how) || take_from(DSQ_FIFO, llc);
}

/*
 * Tasks that may run on this CPU only, against those that may run on others: the earlier deadline goes first. Tasks in
 * the order of arrival have no deadline, and take turns with them, so that neither starves.
 */
static __always_inline bool pinned_goes_first(struct cpu_ctx *cpuc, s32 cpu)
{
	u32 llc = cpuc->llc;
	u64 own = 0, shared = 0;

	if (!head_vtime(DSQ_ID(DSQ_CPU, cpu), &own))
		return false;
	if (nr_queued(DSQ_FIFO, llc))
		return cpuc->turn_pinned++ & 1;
	if (head_vtime(DSQ_ID(DSQ_INTERACTIVE, llc), &shared) && time_before(shared, own))
		return false;
	return !head_vtime(DSQ_ID(DSQ_BATCH, llc), &shared) || !time_before(shared, own);
}

/* Another LLC's work, nearest number first. */
VERIFIED_ONCE int steal(u32 own_llc, s32 cpu, u64 now, u32 how)
{
	u32 step;

	bpf_for(step, 1, nr_llcs) {
		u32 llc = own_llc + step;

		if (llc >= nr_llcs)
			llc -= nr_llcs;
		if (take_by_policy(llc, cpu, how) || take_from_llc(llc, cpu, now, how)) {
			count(SCHERZO_CNT_STOLEN);
			return true;
		}
	}
	return false;
}

/*
 * Whether the DSQs of the policy's own order are looked at first. What has no place in that order, such as a kernel
 * thread whose CPU a higher class had, takes turns with what has: neither may starve.
 */
static __always_inline bool policy_goes_first(struct cpu_ctx *cpuc, s32 cpu)
{
	if (study_policy)
		return false;
	if (!has_other_work(cpuc->llc, cpu))
		return true;
	return cpuc->turn_seat++ & 1;
}

VERIFIED_ONCE int take_next(s32 cpu, u64 now, u32 how)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc)
		return false;
	if (READ_ONCE(engine_waits) && move_to_local(ENGINE_DSQ))
		return true;
	if (policy_goes_first(cpuc, cpu) && take_by_policy(cpuc->llc, cpu, how))
		return true;
	if (pinned_goes_first(cpuc, cpu) && take_from(DSQ_CPU, cpu))
		return true;
	if (take_from_llc(cpuc->llc, cpu, now, how))
		return true;
	if (take_from(DSQ_CPU, cpu) || take_by_policy(cpuc->llc, cpu, how))
		return true;
	return nr_llcs > 1 && steal(cpuc->llc, cpu, now, how);
}

/*
 * The task that this CPU ran before is in flight: it was preempted by a task that sleeps again. With part of its slice
 * left it goes on, if by the policy no other comes first: its cache is warm here, and a switch to another task at each
 * wake-up would cost throughput. Without, it goes on if nothing is queued that this CPU could run instead, and so does
 * the task that was preempted on another CPU. Either way the answer comes in time for the next occasion.
 */
VERIFIED_ONCE int reclaim_preempted(s32 left_cpu, s32 cpu, u64 bits, bool with_slice_left)
{
	struct scherzo_control *page = control_page();
	struct cpu_ctx *cpuc = cpu_ctx(left_cpu);
	u32 noted = cpuc ? READ_ONCE(cpuc->preempted) : 0;
	struct flight *flight;
	struct task_struct *p;
	struct task_ctx *tctx;
	bool reclaimed = false;
	u64 owned, slice_ns;
	u32 index;

	if (!page || !cpuc || !noted || !scx_bpf_dispatch_nr_slots())
		return false;
	index = noted - 1;
	flight = slot_flight(index);
	owned = flight ? READ_ONCE(flight->word) : 0;
	p = flight && owned & USER_OWNED ? bpf_task_from_pid(flight->pid) : NULL;
	if (left_cpu == cpu && (!p || !with_slice_left))
		WRITE_ONCE(cpuc->preempted, 0);
	if (!p)
		return false;
	tctx = task_ctx(p);
	/* A task that has slept meanwhile starts a new slice, when its turn comes. */
	slice_ns = with_slice_left && tctx && !tctx->woken && scx_bpf_task_cpu(p) == cpu ? slice_left_ns(p, tctx) : 0;
	if (slice_ns && !study_policy && !may_finish_slice(tctx, cpuc->llc, cpu))
		slice_ns = 0;
	if (may_run_on(p, cpu) && (slice_ns || !with_slice_left) && reclaim(page, flight, index, owned >> 1)) {
		if (slice_ns) {
			count(SCHERZO_CNT_RECLAIMED);
			insert_by_arrival(p, SCX_DSQ_LOCAL, slice_ns, 0);
		} else {
			queue_task(p, QUEUE_RECLAIMED, word_of(bits), 0, NULL);
		}
		reclaimed = true;
	}
	bpf_task_release(p);
	return reclaimed;
}

/* CPUs that one without work looks at for tasks that were preempted there. */
#define NR_PREEMPTED_SAMPLES 16

/*
 * Tasks that were preempted on other CPUs of the LLC are in flight: this CPU takes one rather than sleep until user
 * space answers.
 */
VERIFIED_ONCE int reclaim_from_others(s32 cpu, u64 bits)
{
	u32 step, nr = nr_cpu_slots < NR_PREEMPTED_SAMPLES ? nr_cpu_slots : NR_PREEMPTED_SAMPLES;
	struct scherzo_control *page = control_page();
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!page || !cpuc || READ_ONCE(nr_in_flight) <= 0)
		return false;
	bpf_for(step, 1, nr) {
		s32 other = cpu + step;

		if (other >= nr_cpu_slots)
			other -= nr_cpu_slots;
		if (cpu_llc(other) == cpuc->llc && reclaim_preempted(other, cpu, bits, false))
			return true;
	}
	return false;
}

/*
 * Nothing waits that this CPU could take, as in most dispatches of a quiet machine. With several LLCs the counts of the
 * others would have to be read as well, which costs more than this saves.
 */
static __always_inline bool nothing_waits(const struct cpu_ctx *cpuc)
{
	const struct llc_ctx *llcx = llc_ctx(cpuc->llc);

	return nr_llcs == 1 && llcx && !READ_ONCE(engine_waits) && READ_ONCE(nr_in_flight) <= 0 &&
	       READ_ONCE(llcx->nr_prompt) <= 0 && READ_ONCE(llcx->nr_fair) <= 0 &&
	       READ_ONCE(llcx->nr_interactive) <= 0 && READ_ONCE(llcx->nr_batch) <= 0 &&
	       READ_ONCE(llcx->nr_fifo) <= 0 && READ_ONCE(cpuc->nr_own) <= 0 && READ_ONCE(cpuc->nr_own_prompt) <= 0 &&
	       READ_ONCE(cpuc->nr_own_fair) <= 0;
}

/* A CPU's next task; true if there is one. */
static __always_inline bool take_work(s32 cpu, struct cpu_ctx *cpuc, u64 now, u32 how, struct control_word word)
{
	bool may_reclaim = how & PICK_BATCH && !word.full_user;

	if (nothing_waits(cpuc))
		return false;
	if (may_reclaim && cpuc->preempted && !others_are_due(cpuc->llc, now) && !nr_queued(DSQ_INTERACTIVE, cpuc->llc) &&
	    !nr_queued(DSQ_CPU, cpu) && reclaim_preempted(cpu, cpu, word_bits(word), true))
		return true;
	if (take_next(cpu, now, how))
		return true;
	return may_reclaim &&
	       (reclaim_preempted(cpu, cpu, word_bits(word), false) || reclaim_from_others(cpu, word_bits(word))) &&
	       take_next(cpu, now, how);
}

/* Notices a change of order, and that a dispatch has acted on the newest control word. */
static __always_inline void note_order_change(struct scherzo_control *page, struct control_word word, u8 order, u64 now)
{
	if (READ_ONCE(order_seen) != order) {
		WRITE_ONCE(order_seen, order);
		/* An order that keeps changing must not keep the other's DSQs draining for ever. */
		if (time_delta(now, READ_ONCE(order_changed_ns)) > (s64)(2 * DRAIN_FIRST_NS))
			WRITE_ONCE(order_changed_ns, now);
	}
}

/*
 * No other task comes first: the task gets another slice. Not on a CPU that low-power keeps asleep if the task is batch
 * work, nor on a slow core that it is to leave for a fast one: it is enqueued instead. While tasks are in flight the
 * slice is short, because one of them may come first once it is answered. The task may be preempted from here on. A
 * policy for study is told about it, since it would otherwise never hear of a task that is kept again and again.
 */
static void keep_running(struct task_struct *prev, struct scherzo_control *page, struct cpu_ctx *cpuc,
			 struct control_word word)
{
	struct task_ctx *tctx = task_ctx(prev);
	u64 slice_ns = default_slice_ns(page);
	u64 now = clock_now();

	if (tctx && !is_engine(prev))
		charge(prev, tctx, cpuc->llc, now);
	if (!tctx || is_engine(prev)) {
		scx_bpf_task_set_slice(prev, slice_ns);
		return;
	}
	if (!cpuc->low_power && !is_pinned(prev) && stays_packed(prev, word, task_class(tctx)))
		return;
	if (cores_differ && tctx->moves_up)
		return;
	if (!study_policy)
		slice_ns = next_slice_ns(prev, page);
	if (READ_ONCE(nr_in_flight) > 0 && slice_ns > NSEC_PER_MSEC)
		slice_ns = NSEC_PER_MSEC;
	scx_bpf_task_set_slice(prev, slice_ns);
	tctx->slice_ns = time_delta(now, tctx->started_ns) + slice_ns;
	if (is_timed(page, slice_ns))
		time_slice(cpuc, scx_bpf_task_cpu(prev), slice_ns, now);
	count(SCHERZO_CNT_KEPT);
	if (!is_kthread(prev))
		publish_victim(cpuc, scx_bpf_task_cpu(prev), published_deadline_ns(tctx, now));
	refresh(prev, tctx, page, now, 0);
}

void BPF_STRUCT_OPS(scherzo_dispatch, s32 cpu, struct task_struct *prev)
{
	struct scherzo_control *page = control_page();
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 now = clock_now();
	struct control_word word;
	bool goes_on = false;
	u32 how = 0;
	u8 order;

	if (!page || !cpuc)
		return;
	word = control_word(page);
	order = effective_order(word);
	note_order_change(page, word, order, now);
	if (order == SCHERZO_ORDER_FIFO)
		how |= PICK_FIFO;
	if (word.mode != SCHERZO_MODE_LOW_POWER || cpuc->low_power)
		how |= PICK_BATCH;

	drain_dispatched(page);
	if (READ_ONCE(stranded_cpu)) {
		u32 stranded = __sync_lock_test_and_set(&stranded_cpu, 0);

		if (stranded)
			drain_offline_cpu(stranded - 1);
	}
	if (is_degraded()) {
		try_recover(page, now);
		if (READ_ONCE(nr_in_flight) > 0)
			sweep_in_flight(now);
	}
	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		goes_on = !READ_ONCE(limits_in_use) || may_go_on(prev, now);
	if (!study_policy && how & PICK_BATCH && prev && goes_on &&
	    (has_seat_work(cpuc->llc, cpu) || READ_ONCE(nr_in_flight) > 0) && !has_other_work(cpuc->llc, cpu) &&
	    prev_goes_on(prev, cpu)) {
		keep_running(prev, page, cpuc, word);
		return;
	}
	if (take_work(cpu, cpuc, now, how, word)) {
		wake_engine_for_backlog(page, now, false);
		return;
	}
	/* Nothing is left here: the answers for tasks in flight are wanted now, and those that have come meanwhile. */
	wake_engine_for_backlog(page, now, true);
	if (signed_delta(READ_ONCE(page->nr_submitted), READ_ONCE(nr_drained)) > 0 && !is_degraded())
		scx_bpf_kick_cpu(cpu, 0);
	/*
	 * The kernel calls ops.update_idle only when a CPU becomes idle or busy. While it schedules by itself, as
	 * during suspend, it does not, so a CPU that idles is noted here again. Newer kernels dispatch for a CPU that a
	 * higher class has, too: that one does not idle.
	 */
	if (!prev && !bpf_get_current_task_btf()->pid) {
		note_idle(cpuc, cpuc->online);
		ours_returned(cpuc, now);
	} else if (prev && goes_on) {
		keep_running(prev, page, cpuc, word);
	}
}

#endif /* SCHERZO_DISPATCH_BPF_H */
