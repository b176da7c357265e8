/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * run.bpf.h: a task runs: it starts, a tick passes, it stops; a CPU runs out of tasks.
 */
#ifndef SCHERZO_RUN_BPF_H
#define SCHERZO_RUN_BPF_H

#include "account.bpf.h"
#include "control.bpf.h"
#include "count.bpf.h"
#include "enqueue.bpf.h"
#include "kin.bpf.h"
#include "kind.bpf.h"
#include "performance.bpf.h"
#include "slices.bpf.h"

/* A task that has used up its credit may be preempted from now on. */
static __always_inline void charge_running(struct task_struct *p, struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	struct task_ctx *tctx = task_ctx(p);
	bool was_prompt;

	if (!tctx || is_engine(p))
		return;
	was_prompt = tctx->prompt;
	if (was_prompt && tctx->credit_ns < POLICY_BORROW_BELOW_NS)
		borrow_from_parents(p, tctx);
	charge(p, tctx, cpuc->llc, now);
	if (was_prompt && !tctx->prompt && !is_kthread(p)) {
		WRITE_ONCE(cpuc->burst_since_ns, 0);
		publish_victim(cpuc, cpu, tctx->vruntime);
	}
}

void BPF_STRUCT_OPS(scherzo_tick, struct task_struct *p)
{
	struct scherzo_control *page = control_page();
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 now = clock_now();
	struct control_word word;

	if (page)
		wake_engine_for_backlog(page, now, false);
	if (!cpuc || !page)
		return;
	word = control_word(page);
	pass_system_clock(cpuc->llc, now);
	if (!study_policy)
		charge_running(p, cpuc, cpu, now);
	tick_limited(p, cpu, now);
	if (asks_for_performance)
		update_util(p, cpuc, cpu, now);
	if (word.preemption && outstays_brief(cpuc, cpu, now)) {
		WRITE_ONCE(cpuc->makes_room, true);
		scx_bpf_task_set_slice(p, 0);
	} else if (begins_to_move_up(p, cpuc, cpu, word)) {
		scx_bpf_task_set_slice(p, 0);
	}
}

void BPF_STRUCT_OPS(scherzo_running, struct task_struct *p)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct scherzo_cpu_stats *stats = this_cpu_stats();
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 now = clock_now(), last_began_ns;
	bool late_pick;
	u32 klass;

	if (!tctx || !cpuc || !stats)
		return;
	cancel_flight(tctx);
	last_began_ns = tctx->started_ns;
	tctx->started_ns = now;
	stats->counters[SCHERZO_CNT_SWITCHES]++;
	retract_victim(cpuc);
	WRITE_ONCE(cpuc->burst_since_ns, 0);
	WRITE_ONCE(cpuc->brief_until_ns, 0);
	late_pick = cpuc->late_pick;
	cpuc->late_pick = false;
	cpuc->rechecked = false;
	cpuc->makes_room = false;
	cpuc->runs_engine = is_engine(p);
	note_idle(cpuc, false);
	ours_returned(cpuc, now);
	if (cpuc->runs_engine) {
		WRITE_ONCE(engine_waits, 0);
		return;
	}
	note_next_of_own(cpuc, tctx, now);
	leave_dsq(tctx);
	WRITE_ONCE(cpuc->run_began_ns, now);
	cpuc->burst_from_ns = now - tctx->burst_ns;
	cpuc->last_burst_ns = tctx->last_burst_ns;
	cpuc->seen_clock = tctx->use.seen_clock;
	cpuc->seen_system_clock = tctx->use.seen_system_clock;
	cpuc->nr_messages = tctx->burst_ns ? tctx->nr_messages : 0;
	WRITE_ONCE(cpuc->run_ends_ns, 0);
	if (READ_ONCE(limits_in_use))
		run_limited(p, cpu, now);
	begin_to_charge(p, tctx, cpuc->llc, last_began_ns, now);
	if (cores_differ)
		tctx->moves_up = false;
	tctx->slice_ns = p->scx.slice;
	if (tctx->timed || is_timed(page, tctx->slice_ns))
		time_slice(cpuc, cpu, tctx->slice_ns, now);
	count_migration(tctx, cpuc, cpu);

	klass = is_kthread(p) && is_pinned(p) ? SCHERZO_CLASS_KERNEL : task_class(tctx);
	record_wait(stats, tctx, klass == SCHERZO_CLASS_KERNEL || !study_policy ? klass : published_class(tctx), now);
	begin_util(tctx, cpuc, cpu, klass, now);
	tctx->wait_since_ns = 0;
	if (late_pick) {
		begin_overdue_turn(cpuc, cpu, now);
		return;
	}
	if (klass == SCHERZO_CLASS_BATCH)
		publish_victim(cpuc, cpu, published_deadline_ns(tctx, now));
	else if (!is_kthread(p))
		note_burst(cpuc, tctx, now);
}

void BPF_STRUCT_OPS(scherzo_stopping, struct task_struct *p, bool runnable)
{
	struct scherzo_cpu_stats *stats = this_cpu_stats();
	struct task_ctx *tctx = task_ctx(p);
	struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));
	u64 now = clock_now();
	s64 ran_ns;

	if (!tctx || !cpuc)
		return;
	retract_victim(cpuc);
	WRITE_ONCE(cpuc->burst_since_ns, 0);
	cpuc->burst_from_ns = 0;
	cpuc->runs_engine = false;
	tctx->nr_messages = cpuc->nr_messages;
	ours_left(cpuc, now);
	if (!is_engine(p))
		end_to_charge(p, tctx, cpuc, now, runnable);
	if (!runnable && p->flags & PF_EXITING)
		leave_place(p, tctx);
	end_util(tctx, cpuc, now, runnable);
	if (tctx->limiter)
		end_limited(p, tctx);
	ran_ns = time_delta(now, tctx->started_ns);
	if (ran_ns > 0) {
		tctx->sum_exec_ns += ran_ns;
		tctx->burst_ns += ran_ns;
		tctx->slice_ns = time_delta(tctx->slice_ns, ran_ns);
		if (stats && !is_engine(p))
			stats->busy_ns += ran_ns;
	}
	if (stats)
		stats->higher_class_ns = cpuc->higher_class_ns;
	if (runnable)
		start_waiting(p, tctx, now);
}

/* Work waits in the DSQs of other LLCs, from which a CPU takes that has none of its own. */
static __always_inline bool others_have_work(u32 own_llc)
{
	u32 llc;

	if (nr_llcs == 1)
		return false;
	bpf_for(llc, 0, nr_llcs) {
		const struct llc_ctx *llcx = llc == own_llc ? NULL : llc_ctx(llc);

		if (llcx && (READ_ONCE(llcx->nr_prompt) > 0 || READ_ONCE(llcx->nr_fair) > 0))
			return true;
	}
	return false;
}

/*
 * A CPU that goes idle may have missed work that was queued after its last look and before its idle mark. One more look
 * per idle period: work that this CPU may not take must not keep it busy.
 */
void BPF_STRUCT_OPS(scherzo_update_idle, s32 cpu, bool idle)
{
	u32 index = cpu;
	struct scherzo_cpu_stats *stats = bpf_map_lookup_elem(&cpu_stats, &index);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!stats || !cpuc)
		return;
	/* One that goes offline idles too. */
	note_idle(cpuc, idle && cpuc->online);
	if (!idle) {
		ours_left(cpuc, clock_now());
		return;
	}
	ours_returned(cpuc, clock_now());
	stats->nr_idle_entries++;
	if (!cpuc->online) {
		/* The kernel marks it as idle for the last time: a task that was queued would have this CPU kicked, in vain. */
		scx_bpf_test_and_clear_cpu_idle(cpu);
		return;
	}
	if (cpuc->rechecked || nothing_waits(cpuc))
		return;
	if (nr_queued(DSQ_INTERACTIVE, cpuc->llc) || nr_queued(DSQ_BATCH, cpuc->llc) ||
	    nr_queued(DSQ_FIFO, cpuc->llc) || nr_queued(DSQ_CPU, cpu) || has_seat_work(cpuc->llc, cpu) ||
	    others_have_work(cpuc->llc)) {
		cpuc->rechecked = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

#endif /* SCHERZO_RUN_BPF_H */
