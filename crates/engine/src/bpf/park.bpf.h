/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * park.bpf.h: where tasks wait whose group has used up its limit (limits.bpf.h), and how they get back; and the runs of such
 * groups.
 *
 * A task is parked in one of a fixed number of DSQs, by the number of its group, as a DSQ cannot be made when it is wanted.
 * No CPU looks there. A timer does, which runs only while a task is parked: when a group has something to run again, and
 * every 100 ms anyway, for limits change. It moves tasks to where they would wait without a limit, a few at a time: a group
 * of a thousand tasks with a balance of 2 ms has two of them try. What a parked task waits is neither sleep nor a stall, and
 * it does not count as active in its group.
 *
 * A task may hold a lock of the kernel that others want. So after 10 s it runs for a moment in any case, which is charged.
 *
 * A parked task may belong to a CPU that goes offline: offline.bpf.h fetches it. One that is dequeued by the kernel is simply
 * gone from here, and is looked at again when it is enqueued. A change of mode or of the seat, and degraded mode, change
 * where it goes when it is let go, and nothing else.
 */
#ifndef SCHERZO_PARK_BPF_H
#define SCHERZO_PARK_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "kind.bpf.h"
#include "limits.bpf.h"
#include "wake.bpf.h"
#include "watchdog.bpf.h"

/* Parked tasks are looked at so often at least. */
#define PARK_PERIOD_NS (100 * NSEC_PER_MSEC)
/* When a group that has something to run, and tasks that are to do so, is looked at again. */
#define RELEASE_PERIOD_NS (1 * NSEC_PER_MSEC)
/* Tasks that were let go and do not run for so long do not hold the others back. */
#define RELEASE_LASTS_NS (20 * NSEC_PER_MSEC)
struct park_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct park_timer);
} park_timer SEC(".maps");

/* When the timer looks, 0 if it does not; and when the first task may leave each DSQ. */
static u64 parks_armed_ns CACHELINE;
static u64 park_due_ns[NR_PARKS];

static __always_inline void arm_parks(u64 at_ns, u64 now)
{
	u64 armed_ns = READ_ONCE(parks_armed_ns);
	s64 after_ns = signed_delta(at_ns, now);
	struct park_timer *timer;
	u32 zero = 0;

	/* One that should have fired long ago does not count. */
	if (armed_ns && signed_delta(at_ns, armed_ns) >= 0 && signed_delta(now, armed_ns) < (s64)PARK_PERIOD_NS)
		return;
	if (after_ns < (s64)TIMER_SLACK_NS)
		after_ns = TIMER_SLACK_NS;
	timer = bpf_map_lookup_elem(&park_timer, &zero);
	WRITE_ONCE(parks_armed_ns, at_ns);
	if (!timer || bpf_timer_start(&timer->timer, after_ns, 0))
		WRITE_ONCE(parks_armed_ns, 0);
}

/* The task was let go, and runs now or is gone. */
static __always_inline void forget_release(struct task_ctx *tctx)
{
	struct limit_ctx *limit;

	if (!tctx->released)
		return;
	limit = limit_ctx(tctx->released);
	tctx->released = ROOT_GROUP;
	if (limit)
		__sync_fetch_and_add(&limit->nr_released, -1);
}

/* Parks a task that is enqueued, if a limit holds it up; false otherwise. */
VERIFIED_ONCE int park(struct task_struct *p __arg_trusted, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);
	u64 now = clock_now(), until_ns, due_ns;
	u32 limiter, index;

	limiter = limiter_of(p, now);
	if (!tctx || !is_held_up(p, tctx, limiter, now))
		return false;
	index = limiter & (NR_PARKS - 1);
	until_ns = held_up_until_ns(limiter, now);
	if (!until_ns || signed_delta(until_ns, now + PARK_PERIOD_NS) > 0)
		until_ns = now + PARK_PERIOD_NS;
	uncount_weight(tctx, now);
	/*
	 * What is left for the group is divided in turns: tasks that sleep would otherwise take all of it in time, and others
	 * nothing.
	 */
	tctx->prompt = false;
	if (tctx->credit_ns > 0)
		tctx->credit_ns = 0;
	if (!tctx->parked_since_ns)
		tctx->parked_since_ns = now;
	insert_by_arrival(p, DSQ_ID(DSQ_PARK, index), SCX_SLICE_DFL, enq_flags);
	due_ns = READ_ONCE(park_due_ns[index]);
	if (!due_ns || signed_delta(until_ns, due_ns) < 0)
		WRITE_ONCE(park_due_ns[index], until_ns);
	arm_parks(until_ns, now);
	return true;
}

/* When a parked task may leave, 0 if it may now. */
VERIFIED_ONCE u64 parked_until_ns(struct task_struct *p __arg_trusted, u64 now)
{
	u32 limiter = limiter_of(p, now);
	struct limit_ctx *limit = limit_ctx(limiter);
	struct task_ctx *tctx = task_ctx(p);
	u64 until_ns;
	s32 nr_running;

	if (!limit || !tctx || is_exempt(p))
		return 0;
	until_ns = held_up_until_ns(limiter, now);
	if (until_ns && time_delta(now, tctx->parked_since_ns) < (s64)PARKED_MAX_NS)
		return until_ns;
	if (until_ns) {
		tctx->overruns = true;
		count(SCHERZO_CNT_LIMIT_OVERRUN);
		return 0;
	}
	nr_running = READ_ONCE(limit->nr_running);
	if (bandwidth_room(READ_ONCE(limit->balance_ns), nr_running + READ_ONCE(limit->nr_released)) <= 0 &&
	    (nr_running > 0 || time_delta(now, READ_ONCE(limit->released_ns)) < (s64)RELEASE_LASTS_NS))
		return now + RELEASE_PERIOD_NS;
	WRITE_ONCE(limit->released_ns, now);
	__sync_fetch_and_add(&limit->nr_released, 1);
	tctx->released = limiter;
	return 0;
}

/*
 * The DSQ where the task waits once it is let go, 0 if there is none; slice and dsq_vtime are left in its context. A function
 * of its own, as the verifier would follow each of its paths through the loop of its caller.
 */
VERIFIED_ONCE u64 place_of_released(struct task_struct *p __arg_trusted, u64 now)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct policy_turn turn = { .vtime = now };
	struct control_word word;
	u32 klass, kind;
	u64 dsq_id;

	if (!page || !tctx)
		return 0;
	word = control_word(page);
	klass = task_class(tctx);
	kind = klass == SCHERZO_CLASS_INTERACTIVE ? DSQ_INTERACTIVE : DSQ_BATCH;
	turn.slice_ns = default_slice_ns(page);
	if (!study_policy && decide_turn(p, tctx, page, word, &turn))
		dsq_id = dsq_of_turn(p, tctx, word, turn.first);
	else if (is_pinned(p))
		dsq_id = DSQ_ID(DSQ_CPU, scx_bpf_task_cpu(p));
	else
		dsq_id = DSQ_ID(effective_order(word) == SCHERZO_ORDER_FIFO ? DSQ_FIFO : kind, target_llc(p, word, klass));
	tctx->timed = turn.timed;
	tctx->release_slice_ns = tctx->overruns ? BANDWIDTH_RUN_MIN_NS : turn.slice_ns;
	tctx->release_vtime = turn.vtime;
	return dsq_id;
}

static __always_inline bool move_from_park(struct bpf_iter_scx_dsq *iter, struct task_struct *p, struct task_ctx *tctx,
					   u64 dsq_id)
{
	enter_dsq(tctx, dsq_id);
	scx_bpf_dsq_move_set_slice(iter, tctx->release_slice_ns);
	if (dsq_id >> 32 == DSQ_FIFO)
		return scx_bpf_dsq_move(iter, p, dsq_id, 0);
	if (dsq_id >> 32 == DSQ_BATCH)
		note_batch_deadline(dsq_id, tctx->release_vtime);
	scx_bpf_dsq_move_set_vtime(iter, tctx->release_vtime);
	return scx_bpf_dsq_move_vtime(iter, p, dsq_id, 0);
}

/* Releases the tasks that may leave, or only those that are pinned; says when the next one may, 0 if none is left. */
VERIFIED_ONCE u64 look_through_park(u32 index, u64 now, bool only_pinned)
{
	const struct scherzo_control *page = control_page();
	u64 next_ns = now + PARK_PERIOD_NS, dsq_id = DSQ_ID(DSQ_PARK, index);
	struct control_word word;
	struct task_struct *p;

	if (!page)
		return next_ns;
	word = control_word(page);
	/* The verifier sees this from ops.init too, which sets the timer up and may sleep. */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));
		struct task_ctx *tctx = task_ctx(p);
		u64 until_ns, to_dsq;

		if (!tctx || (only_pinned && !is_pinned(p)))
			continue;
		until_ns = parked_until_ns(p, now);
		if (until_ns) {
			if (signed_delta(until_ns, next_ns) < 0)
				next_ns = until_ns;
			continue;
		}
		if (cpuc && !READ_ONCE(cpuc->online))
			WRITE_ONCE(stranded_cpu, scx_bpf_task_cpu(p) + 1);
		start_waiting(p, tctx, now);
		to_dsq = place_of_released(p, now);
		if (!to_dsq || !move_from_park(BPF_FOR_EACH_ITER, p, tctx, to_dsq)) {
			/* The kernel has just taken it out itself. */
			leave_dsq(tctx);
			forget_release(tctx);
		} else if (is_cpu_dsq(to_dsq >> 32)) {
			scx_bpf_test_and_clear_cpu_idle(to_dsq);
			scx_bpf_kick_cpu(to_dsq, SCX_KICK_IDLE);
		} else {
			kick_idle_for(p, word_bits(word), task_class(tctx));
		}
	}
	bpf_rcu_read_unlock();
	return scx_bpf_dsq_nr_queued(dsq_id) > 0 ? next_ns : 0;
}

/* All DSQs; says when the next task may leave, 0 if none is left. */
VERIFIED_ONCE u64 look_through_all(u64 now, bool only_pinned)
{
	u64 next_ns = 0;
	u32 index;

	bpf_for(index, 0, NR_PARKS) {
		u64 *due = &park_due_ns[index & (NR_PARKS - 1)], due_ns = READ_ONCE(*due), at_ns = due_ns;

		if (scx_bpf_dsq_nr_queued(DSQ_ID(DSQ_PARK, index)) <= 0)
			continue;
		if (signed_delta(due_ns, now) <= (s64)TIMER_SLACK_NS) {
			at_ns = look_through_park(index, now, only_pinned);
			/* A CPU that has parked a task meanwhile has written a later time. */
			if (!only_pinned)
				__sync_val_compare_and_swap(due, due_ns, at_ns);
		}
		if (at_ns && (!next_ns || signed_delta(at_ns, next_ns) < 0))
			next_ns = at_ns;
	}
	return next_ns;
}

static int look_through_parks(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = clock_now(), next_ns;

	WRITE_ONCE(parks_armed_ns, 0);
	/* Those of one CPU first: it is then not woken for another task, which no CPU would fetch. */
	look_through_all(now, true);
	next_ns = look_through_all(now, false);
	if (READ_ONCE(stranded_cpu))
		kick_all(0);
	if (next_ns)
		arm_parks(next_ns, now);
	arm_watchdog();
	return 0;
}

/* The task begins to run in these groups, from now on. */
static __always_inline void begin_limited(const struct task_struct *p, struct task_ctx *tctx, u32 limiter)
{
	struct limit_ctx *limit = limit_ctx(limiter);

	tctx->limiter = limiter;
	/* What the kernel has charged since the task stopped last is these groups' too, if they are still the same. */
	if (tctx->charged_limiter != limiter)
		tctx->limits_charged_exec_ns = p->se.sum_exec_runtime;
	tctx->charged_limiter = limiter;
	if (limit)
		__sync_fetch_and_add(&limit->nr_running, 1);
}

/* It does not run any more, or in other groups. */
static __always_inline void end_limited(const struct task_struct *p, struct task_ctx *tctx)
{
	struct limit_ctx *limit = limit_ctx(tctx->limiter);

	if (!limit)
		return;
	charge_run(p, tctx);
	__sync_fetch_and_add(&limit->nr_running, -1);
	tctx->limiter = ROOT_GROUP;
	tctx->overruns = false;
}

/* A task has got the CPU. If it should have been parked, it goes back: it was queued or with user space at that time. */
VERIFIED_ONCE int run_limited(struct task_struct *p __arg_trusted, s32 cpu, u64 now)
{
	struct task_ctx *tctx = task_ctx(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u32 limiter;

	if (!tctx || !cpuc)
		return 0;
	forget_release(tctx);
	limiter = limiter_of(p, now);
	if (limiter == ROOT_GROUP) {
		tctx->charged_limiter = ROOT_GROUP;
		return 0;
	}
	begin_limited(p, tctx, limiter);
	if (!tctx->overruns && has_run_out(p, tctx, now)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return 0;
	}
	tctx->parked_since_ns = 0;
	time_run(tctx, cpuc, cpu, now);
	return 0;
}

/* The same at a tick, when limits of tasks that never sleep are noticed as well. */
VERIFIED_ONCE int tick_limited(struct task_struct *p __arg_trusted, s32 cpu, u64 now)
{
	struct task_ctx *tctx = task_ctx(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u32 limiter;

	if (!tctx || !cpuc || is_kthread(p) || is_engine(p))
		return 0;
	if (bpf_core_field_exists(p->sched_task_group))
		group_of(p, now);
	limiter = limiter_of(p, now);
	if (limiter != tctx->limiter) {
		end_limited(p, tctx);
		if (limiter != ROOT_GROUP)
			begin_limited(p, tctx, limiter);
	}
	if (limiter == ROOT_GROUP)
		return 0;
	charge_run(p, tctx);
	if (has_run_out(p, tctx, now))
		scx_bpf_task_set_slice(p, 0);
	else
		time_run(tctx, cpuc, cpu, now);
	return 0;
}

VERIFIED_ONCE int init_parks(void)
{
	struct park_timer *timer;
	u32 index = 0;
	s64 err;

	timer = bpf_map_lookup_elem(&park_timer, &index);
	if (!timer || bpf_timer_init(&timer->timer, &park_timer, CLOCK_MONOTONIC))
		return -EINVAL;
	err = bpf_timer_set_callback(&timer->timer, look_through_parks);
	bpf_for(index, 0, NR_PARKS) {
		err = err ?: scx_bpf_create_dsq(DSQ_ID(DSQ_PARK, index), -1);
	}
	return err;
}

#endif /* SCHERZO_PARK_BPF_H */
