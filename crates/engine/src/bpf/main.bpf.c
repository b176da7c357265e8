// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scherzo's kernel side: the callbacks of the scheduler.
 *
 * Problem. A desktop stays responsive if a task that was asleep runs at once when it is woken, whatever else is busy.
 * Judging tasks is policy, best written and tested in user space; acting on a wake-up must take microseconds, and must
 * work when user space does not.
 *
 * Approach. BPF acts, user space judges.
 *   - A task that finds an idle CPU gets it here (select_cpu, idle.bpf.h): policy has nothing to add.
 *   - A task known to be interactive follows who wakes it (follow.bpf.h), or takes a CPU from batch work here, at once, on
 *     the class and key that user space has published for it (place.bpf.h).
 *   - If there is no such CPU either, it enters an ordered queue as user space classified it a moment ago (place.bpf.h).
 *   - Everything else that must wait for a CPU is handed to user space through a ring; the decision comes back through
 *     another ring with a key and a slice, and enters an ordered queue (flight.bpf.h, dispatch.bpf.h).
 *   - Per-CPU kernel threads, threads that reclaim memory, and the engine's own thread never pass through user space.
 *   - If user space does not answer, BPF schedules alone in arrival order until it does (flight.bpf.h), and a timer
 *     looks after what waits (watchdog.bpf.h).
 *
 * In the mode interactive BPF follows the policy by itself, without user space (seat.bpf.h), unless a setting says otherwise.
 *
 * Modes are a control word that each callback reads once; switching never unloads anything.
 *
 * Credits. The division of labour descends from scx_rustland (Andrea Righi), waking on a class of voluntary sleepers
 * from scx_bpfland (Andrea Righi), domains per last-level cache from scx_rusty (David Vernet, Tejun Heo).
 *
 * Limits. Cores are fast or slow (idle.bpf.h), without degrees between.
 */
#include <scx/common.bpf.h>
#include "scherzo_wire.h"

char _license[] SEC("license") = "GPL";

#include "state.bpf.h"
#include "dsq.bpf.h"
#include "groups.bpf.h"
#include "credit.bpf.h"
#include "idle.bpf.h"
#include "place.bpf.h"
#include "seat.bpf.h"
#include "flight.bpf.h"
#include "dispatch.bpf.h"
#include "follow.bpf.h"
#include "watchdog.bpf.h"
#include "lifecycle.bpf.h"
#include "account.bpf.h"

static __always_inline void run_at_once(struct task_struct *p, const struct scherzo_control *page, u64 enq_flags,
					enum scherzo_counter counter)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, default_slice_ns(page), enq_flags);
	count_here(counter);
}

/*
 * This CPU is being taken down and has passed the point where it still gets interrupts. Work for its own interrupt
 * (scx_bpf_kick_cpu(), a ring's notification, a timer that is started) would stay in its list until it is taken down the
 * next time, and block whatever is added to that list meanwhile. Wake-ups do come from here: of who asked for the CPU to be
 * taken down, and by the interrupt work that the kernel flushes last.
 */
static __always_inline bool gets_no_interrupts(void)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	const struct cpumask *online;
	bool gone;

	if (!cpuc || cpuc->online)
		return false;
	online = scx_bpf_get_online_cpumask();
	gone = !bpf_cpumask_test_cpu(cpu, online);
	scx_bpf_put_cpumask(online);
	return gone;
}

static __always_inline void start_waiting(struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	tctx->wait_since_ns = now;
	tctx->wait_cpu = cpu;
	tctx->wait_higher_class_ns = cpuc ? cpu_higher_class_ns(cpuc, now) : 0;
}

/* The same for one that was woken, which ends a burst. */
static __always_inline void wake_up(struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	tctx->woken = true;
	tctx->last_burst_ns = tctx->burst_ns;
	tctx->burst_ns = 0;
	credit_sleep(p, tctx, now);
	start_waiting(p, tctx, now);
}

/*
 * The engine has the task's CPU and little to do there: it is gone again in microseconds, sooner than any other CPU could
 * be had.
 */
static __always_inline bool waits_behind_engine(struct task_struct *p, s32 prev_cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);

	return cpuc && READ_ONCE(cpuc->runs_engine) && may_run_on(p, prev_cpu) &&
	       bpf_ringbuf_query(&queued_tasks, BPF_RB_AVAIL_DATA) <= RING_NEARLY_EMPTY_BYTES;
}

/*
 * Low-power: a CPU that carries batch work anyway, idle or taken from that work, before one that sleeps is woken. The CPU,
 * on which the task then runs at once, or -1.
 */
static s32 run_on_awake_cpu(struct task_struct *p, const struct scherzo_control *page, struct control_word word, u32 klass)
{
	s32 cpu = idle_low_power_cpu(p);

	if (cpu >= 0) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		return cpu;
	}
	if (klass != SCHERZO_CLASS_INTERACTIVE || !word.preemption)
		return -1;
	cpu = preempt_low_power_cpu(p);
	if (cpu >= 0)
		run_at_once(p, page, SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
	return cpu;
}

/*
 * An interactive task that found no idle CPU: on whose it runs instead, or -1 if it has to wait in a queue. The waker's if
 * that is about to sleep; who is to be believed in that comes first, who only says so comes last.
 */
static __always_inline s32 take_busy_cpu(struct task_struct *p, const struct task_ctx *tctx,
					 const struct scherzo_control *page, struct control_word word,
					 s32 prev_cpu, bool waker_says_done)
{
	struct cpu_ctx *cpuc;
	s32 cpu;

	if (word.kernel_seat && must_not_preempt(tctx, cpu_llc(prev_cpu)))
		return -1;
	if (waker_says_done && is_done(bpf_get_current_task_btf()) && follows_waker(p)) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		return bpf_get_smp_processor_id();
	}
	if (word.preemption && (waits_behind_engine(p, prev_cpu) || waits_behind_brief(p, prev_cpu))) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		return prev_cpu;
	}
	if (word.preemption) {
		cpu = interrupts_longer(p, tctx, prev_cpu) ? prev_cpu : preempt_cpu(p, prev_cpu);
		if (cpu < 0 && word.kernel_seat)
			cpu = interrupt_any_longer(p, prev_cpu);
		cpuc = cpu_ctx(cpu);
		if (cpuc) {
			note_brief(cpuc, tctx, scx_bpf_now() + TAKEOVER_NS);
			run_at_once(p, page, SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
			return cpu;
		}
	}
	if (!waker_says_done || !follows_waker(p))
		return -1;
	run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
	return bpf_get_smp_processor_id();
}

s32 BPF_STRUCT_OPS(scherzo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word;
	struct task_struct *waker;
	bool idle = false;
	u64 now = 0;
	u32 klass;
	s32 cpu;

	if (!page || !tctx)
		return prev_cpu;
	word = control_word(page);
	/* Its place is chosen in enqueue: a local queue could be taken by a higher class, with nobody to fetch it. */
	if (is_engine(p))
		return prev_cpu;

	if (wake_flags & SCX_WAKE_TTWU) {
		waker = bpf_get_current_task_btf();
		tctx->waker_pid = waker->pid;
		tctx->woken_by_sleeper = wake_flags & SCX_WAKE_SYNC;
		now = scx_bpf_now();
		inherit_from_child(p, waker);
		wake_up(p, tctx, now);
	}
	if (word.full_user || gets_no_interrupts())
		return prev_cpu;
	klass = task_class(tctx);
	if (word.mode == SCHERZO_MODE_LOW_POWER && !is_degraded()) {
		cpu = run_on_awake_cpu(p, page, word, klass);
		if (cpu >= 0) {
			refresh(p, tctx, page, now, SCX_ENQ_WAKEUP);
			return cpu;
		}
		if (stays_packed(p, word, klass))
			return prev_cpu;
	}

	if (READ_ONCE(nr_idle) <= 0) {
		/* Nobody idles: spare the search. */
		cpu = -1;
	} else if (cores_differ || word.own_idle) {
		cpu = find_idle_cpu(p, prev_cpu, word_bits(word));
		idle = cpu >= 0;
	} else {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	}
	if (idle) {
		run_at_once(p, page, 0, SCHERZO_CNT_DIRECT);
		refresh(p, tctx, page, now, SCX_ENQ_WAKEUP);
		return cpu;
	}
	if (klass != SCHERZO_CLASS_INTERACTIVE || is_degraded())
		return prev_cpu;
	cpu = take_busy_cpu(p, tctx, page, word, prev_cpu, wake_flags & SCX_WAKE_SYNC);
	if (cpu < 0)
		return prev_cpu;
	refresh(p, tctx, page, now, SCX_ENQ_WAKEUP);
	return cpu;
}

/* The task was moved while it waited: what a higher class held of its old CPU says nothing about the new one. */
static __always_inline void follow_wait(struct task_struct *p, struct task_ctx *tctx)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (tctx->wait_cpu == cpu || !cpuc)
		return;
	tctx->wait_cpu = cpu;
	tctx->wait_higher_class_ns = cpu_higher_class_ns(cpuc, scx_bpf_now());
}

/* A task that may run on its own CPU only never saw select_cpu: the same choices, for that CPU. */
static bool run_pinned_at_once(struct task_struct *p, const struct scherzo_control *page, struct control_word word,
			       u32 klass, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (!cpuc || !(enq_flags & SCX_ENQ_WAKEUP))
		return false;
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		run_at_once(p, page, enq_flags, SCHERZO_CNT_DIRECT);
		return true;
	}
	if (word.preemption && klass == SCHERZO_CLASS_INTERACTIVE && try_preempt(cpuc)) {
		run_at_once(p, page, enq_flags | SCX_ENQ_PREEMPT, SCHERZO_CNT_PREEMPT);
		return true;
	}
	return false;
}

static __always_inline void make_room_for_engine(s32 cpu, u64 kick_flags)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	if (cpuc && kick_flags & SCX_KICK_PREEMPT)
		WRITE_ONCE(cpuc->makes_room, true);
}

/*
 * The task was interrupted for the engine or for a quicker one, or to move up, with part of its slice left: that is no reason
 * to ask the engine about it, or each of its runs would cause the next.
 */
static __always_inline bool gave_way(struct task_struct *p, const struct task_ctx *tctx, u64 enq_flags)
{
	struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));

	return cpuc && (READ_ONCE(cpuc->makes_room) || (cores_differ && tctx->moves_up)) &&
	       !(enq_flags & SCX_ENQ_WAKEUP) && tctx->slice_ns;
}

/* The same where the kernel has the seat. */
static __always_inline void wait_by_policy(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page,
					   struct control_word word, u64 enq_flags)
{
	u32 klass = task_class(tctx);
	s32 cpu;

	if (is_pinned(p) && run_pinned_at_once(p, page, word, klass, enq_flags))
		return;
	if (klass != SCHERZO_CLASS_INTERACTIVE)
		count_here(SCHERZO_CNT_CONTENDED_BATCH);
	if (enq_flags & SCX_ENQ_REENQ)
		count(SCHERZO_CNT_REQUEUED);
	queue_by_policy(p, word_bits(word), enq_flags);
	if (!(enq_flags & SCX_ENQ_REENQ) || is_pinned(p) || klass != SCHERZO_CLASS_INTERACTIVE || !word.preemption)
		return;
	cpu = preempt_cpu(p, scx_bpf_task_cpu(p));
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Where a task goes that no CPU was taken for: into a queue of ours or to user space. */
static __always_inline void enqueue_contended(struct task_struct *p, struct task_ctx *tctx, struct scherzo_control *page,
				     struct control_word word, u64 enq_flags)
{
	u32 klass;

	if (!tctx || is_degraded() || (frees_memory(p) && !word.kernel_seat)) {
		queue_in_kernel(p, word_bits(word), enq_flags);
		return;
	}
	follow_wait(p, tctx);
	if (cores_differ && tctx->moves_up && !(enq_flags & SCX_ENQ_WAKEUP) && move_up(p, word_bits(word), enq_flags))
		return;
	if (word.kernel_seat) {
		wait_by_policy(p, tctx, page, word, enq_flags);
		return;
	}
	if (enq_flags & SCX_ENQ_REENQ || gave_way(p, tctx, enq_flags)) {
		requeue(p, tctx, word, enq_flags);
		return;
	}

	klass = task_class(tctx);
	if (is_pinned(p) && !word.full_user && run_pinned_at_once(p, page, word, klass, enq_flags))
		return;
	if (klass != SCHERZO_CLASS_INTERACTIVE)
		count_here(SCHERZO_CNT_CONTENDED_BATCH);
	else if (enq_flags & SCX_ENQ_WAKEUP && !word.full_user && queue_as_classified(p, word_bits(word), enq_flags))
		return;
	if (!submit(p, tctx, page, klass, enq_flags))
		queue_in_kernel(p, word_bits(word), enq_flags);
}

void BPF_STRUCT_OPS(scherzo_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word;
	u64 kick_flags;
	s32 cpu;

	if (!page) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	word = control_word(page);
	if (tctx) {
		leave_dsq(tctx);
		/* Pinned tasks and those that are new have not been through select_cpu. */
		if (!tctx->wait_since_ns && enq_flags & SCX_ENQ_WAKEUP)
			wake_up(p, tctx, scx_bpf_now());
		else if (!tctx->wait_since_ns)
			start_waiting(p, tctx, scx_bpf_now());
	}
	if (gets_no_interrupts()) {
		/* The kernel itself reschedules the CPU that it chose for the task. */
		run_at_once(p, page, enq_flags | SCX_ENQ_PREEMPT, SCHERZO_CNT_OFFLINE);
		return;
	}
	if (is_engine(p)) {
		WRITE_ONCE(engine_waits, 1);
		scx_bpf_dsq_insert(p, ENGINE_DSQ, SLICE_MAX_NS, enq_flags);
		cpu = engine_cpu(p, word, &kick_flags);
		make_room_for_engine(cpu, kick_flags);
		scx_bpf_kick_cpu(cpu, kick_flags);
		return;
	}
	if (is_kthread(p) && is_pinned(p)) {
		/* Back in the local DSQ it would be re-enqueued with each switch between real-time tasks. */
		if (!tctx || !(enq_flags & SCX_ENQ_REENQ)) {
			run_at_once(p, page, enq_flags, SCHERZO_CNT_KERNEL);
			return;
		}
		queue_kthread_on_own_cpu(p, tctx, page, enq_flags);
		arm_watchdog();
		return;
	}
	enqueue_contended(p, tctx, page, word, enq_flags);
	/* Afterwards: it may have been about to stop because there was nothing yet. */
	arm_watchdog();
}

void BPF_STRUCT_OPS(scherzo_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	cancel_flight(tctx);
	if (deq_flags & SCX_DEQ_SLEEP)
		uncount_weight(tctx);
}

void BPF_STRUCT_OPS(scherzo_dispatch, s32 cpu, struct task_struct *prev)
{
	struct scherzo_control *page = control_page();
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 now = scx_bpf_now();
	struct control_word word;
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
	if (word.kernel_seat)
		how |= PICK_KERNEL_SEAT;

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
	if (word.kernel_seat && prev && prev->scx.flags & SCX_TASK_QUEUED && has_seat_work(cpuc->llc, cpu) &&
	    !has_user_seat_work(cpuc->llc, cpu) && prev_goes_on(prev, cpu)) {
		keep_running(prev, page, cpuc, word);
		return;
	}
	if (take_work(cpu, cpuc, now, how, word)) {
		wake_engine_for_backlog(page, now, false);
		return;
	}
	/* Nothing left here: whatever user space still holds is wanted now, and what it has answered meanwhile. */
	wake_engine_for_backlog(page, now, true);
	if (signed_delta(READ_ONCE(page->nr_submitted), READ_ONCE(nr_drained)) > 0 && !is_degraded())
		scx_bpf_kick_cpu(cpu, 0);
	/*
	 * A CPU that was idle and stays so is not said to be: while the kernel schedules by itself, as for a sleep, we miss it.
	 * For one that a higher class has, newer kernels ask as well.
	 */
	if (!prev && !bpf_get_current_task_btf()->pid)
		note_idle(cpuc, cpuc->online);
	else if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		keep_running(prev, page, cpuc, word);
}

/* Who has used up its credit may be preempted from now on. */
static __always_inline void charge_running(struct task_struct *p, struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	struct task_ctx *tctx = task_ctx(p);
	bool was_prompt;

	if (!tctx || is_engine(p))
		return;
	was_prompt = tctx->prompt;
	charge(p, tctx, cpuc, now);
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
	u64 now = scx_bpf_now();
	struct control_word word;

	if (page)
		wake_engine_for_backlog(page, now, false);
	if (!cpuc || !page)
		return;
	word = control_word(page);
	if (word.kernel_seat)
		charge_running(p, cpuc, cpu, now);
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
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 now = scx_bpf_now();
	bool late_pick;
	u32 klass;

	if (!tctx || !cpuc)
		return;
	cancel_flight(tctx);
	tctx->started_ns = now;
	count_here(SCHERZO_CNT_SWITCHES);
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
	leave_dsq(tctx);
	begin_to_charge(p, tctx, cpuc, page ? default_slice_ns(page) : SCX_SLICE_DFL, now);
	if (cores_differ)
		tctx->moves_up = false;
	tctx->slice_ns = p->scx.slice;
	count_migration(tctx, cpuc, cpu);

	klass = is_kthread(p) && is_pinned(p) ? SCHERZO_CLASS_KERNEL : task_class(tctx);
	record_wait(p, tctx, klass == SCHERZO_CLASS_KERNEL || kernel_seat() ? klass : published_class(tctx), now);
	tctx->wait_since_ns = 0;
	ask_for_performance(cpuc, cpu, klass);
	if (late_pick)
		return;
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
	u64 now = scx_bpf_now();
	s64 ran_ns;

	if (!tctx || !cpuc)
		return;
	retract_victim(cpuc);
	WRITE_ONCE(cpuc->burst_since_ns, 0);
	cpuc->runs_engine = false;
	ours_left(cpuc, now);
	if (!is_engine(p))
		end_to_charge(p, tctx, cpuc, now, runnable);
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
		ours_left(cpuc, scx_bpf_now());
		return;
	}
	ours_returned(cpuc, scx_bpf_now());
	stats->nr_idle_entries++;
	if (cpuc->rechecked || !cpuc->online)
		return;
	if (nr_queued(DSQ_INTERACTIVE, cpuc->llc) || nr_queued(DSQ_BATCH, cpuc->llc) ||
	    nr_queued(DSQ_FIFO, cpuc->llc) || nr_queued(DSQ_CPU, cpu) || has_seat_work(cpuc->llc, cpu)) {
		cpuc->rechecked = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

/*
 * How often a CPU's local DSQ is emptied at most while a higher class has the CPU. From 7.3 the kernel ends a scheduler of
 * which one task is re-enqueued more than 256 times without running (SCX_EXIT_ERROR_REENQ), and two real-time tasks that
 * wake each other switch that often in milliseconds. Once would do: what is put back goes to a DSQ of ours, the pinned
 * tasks to their CPU's, and nothing is sent to the local DSQ of such a CPU. The other times are for tasks that were on
 * their way there when the higher class came.
 */
#define NR_REENQUEUES_PER_SPELL 8

/*
 * A higher class took this CPU. What waits in its local DSQ would wait with it: put it back, so that other CPUs can have
 * it. The count starts again when one of our tasks stops running here or the CPU leaves idleness (ours_left()). It is this
 * CPU's own, and interrupts are off: no atomics.
 */
static __always_inline bool empties_local_dsq(struct cpu_ctx *cpuc, s32 cpu)
{
	if (!cpuc || cpuc->nr_reenqueued >= NR_REENQUEUES_PER_SPELL || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) <= 0)
		return false;
	cpuc->nr_reenqueued++;
	return true;
}

/* Up to 6.18 tasks can be put back from this callback only. Stop tasks are gone in microseconds. */
void BPF_STRUCT_OPS(scherzo_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (args->reason != SCX_CPU_PREEMPT_STOP && empties_local_dsq(cpu_ctx(cpu), cpu))
		scx_bpf_reenqueue_local();
}

/* The same from 6.19 on, where the callback above is on its way out. */
SEC("tp_btf/sched_switch")
int BPF_PROG(scherzo_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool ordinary = next->prio >= MAX_RT_PRIO && (!partial || next->policy == SCHED_EXT || !next->pid);
	s32 cpu;

	if (ordinary || (is_kthread(next) && next->prio == 0))
		return 0;
	cpu = bpf_get_smp_processor_id();
	if (empties_local_dsq(cpu_ctx(cpu), cpu))
		scx_bpf_reenqueue_local_from_anywhere();
	return 0;
}

SCX_OPS_DEFINE(scherzo_ops,
	       .select_cpu		= (void *)scherzo_select_cpu,
	       .enqueue			= (void *)scherzo_enqueue,
	       .dequeue			= (void *)scherzo_dequeue,
	       .dispatch		= (void *)scherzo_dispatch,
	       .tick			= (void *)scherzo_tick,
	       .running			= (void *)scherzo_running,
	       .stopping		= (void *)scherzo_stopping,
	       .update_idle		= (void *)scherzo_update_idle,
	       .cpu_release		= (void *)scherzo_cpu_release,
	       .cpu_online		= (void *)scherzo_cpu_online,
	       .cpu_offline		= (void *)scherzo_cpu_offline,
	       .init_task		= (void *)scherzo_init_task,
	       .enable			= (void *)scherzo_enable,
	       .exit_task		= (void *)scherzo_exit_task,
	       .init			= (void *)scherzo_init,
	       .exit			= (void *)scherzo_exit,
	       .flags			= SCX_OPS_ENQ_LAST | SCX_OPS_KEEP_BUILTIN_IDLE,
	       .dispatch_max_batch	= 128,
	       .timeout_ms		= 30000,
	       .name			= "scherzo");
