/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * watchdog.bpf.h: the timer that finds tasks that wait too long.
 *
 * It runs only while something is in flight or queued, so an idle machine is not woken for it. It may not insert tasks
 * (the kernel allows that from dispatches only): it degrades and kicks, or, for a stall, ends the scheduler.
 *
 * A stall is a task that waited longer than the limit although the CPU it would run on was not busy with a higher
 * scheduling class. The kernel's own watchdog cannot tell the two apart, so it is set to its maximum.
 */
#ifndef SCHERZO_WATCHDOG_BPF_H
#define SCHERZO_WATCHDOG_BPF_H

#include "degraded.bpf.h"
#include "dispatch.bpf.h"
#include "higher_class.bpf.h"

#define WATCHDOG_PERIOD_NS (50 * NSEC_PER_MSEC)
/* How long a task may be in flight before BPF schedules alone. */
#define FLIGHT_LIMIT_NS (100 * NSEC_PER_MSEC)
/* How long records may be left unread: then user space is woken, and after the same again BPF schedules alone. */
#define UNREAD_LIMIT_NS (100 * NSEC_PER_MSEC)
/* How long a runnable task may wait before the scheduler gives up. */
#define STALL_LIMIT_NS (5000 * NSEC_PER_MSEC)
/* Tasks looked at per DSQ: the head of an ordered DSQ need not be the one that waits longest. */
#define NR_STALL_SAMPLES 16

struct watchdog {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct watchdog);
} watchdog_timer SEC(".maps");

static u32 watchdog_armed;

static void arm_watchdog(void)
{
	u32 zero = 0;
	struct watchdog *watchdog;

	if (READ_ONCE(watchdog_armed) || __sync_val_compare_and_swap(&watchdog_armed, 0, 1))
		return;
	watchdog = bpf_map_lookup_elem(&watchdog_timer, &zero);
	if (!watchdog || bpf_timer_start(&watchdog->timer, WATCHDOG_PERIOD_NS, 0))
		WRITE_ONCE(watchdog_armed, 0);
}

/*
 * Tasks in all DSQs, as the last round found it, those looked at in one of them, how many of these are held to a limit, and to
 * which. They live in memory because the verifier would follow each of their values through the loop.
 */
static u64 nr_found;
static u32 nr_seen;
static u32 nr_answerable_tasks;
static u64 stall_limit;

/*
 * A dispatch that the kernel overtook has left a note that the task is in another DSQ than this one, whose count is then
 * too low: dispatches may pass it by.
 */
static __always_inline void correct_dsq(struct task_ctx *tctx, u64 dsq_id)
{
	if (READ_ONCE(tctx->dsq_id) == dsq_id)
		return;
	enter_dsq(tctx, dsq_id);
	kick_all(SCX_KICK_IDLE);
}

/* Where the head of a DSQ of the policy is noted; NULL for the others. */
static __always_inline struct head_watch *head_watch(u64 dsq_id)
{
	u32 kind = dsq_id >> 32;
	struct llc_ctx *llcx;
	struct cpu_ctx *cpuc;

	if (kind == DSQ_CPU_PROMPT || kind == DSQ_CPU_FAIR) {
		cpuc = cpu_ctx(dsq_id);
		if (!cpuc)
			return NULL;
		return kind == DSQ_CPU_PROMPT ? &cpuc->prompt_head : &cpuc->fair_head;
	}
	if (kind != DSQ_PROMPT && kind != DSQ_FAIR)
		return NULL;
	llcx = llc_ctx(dsq_id);
	if (!llcx)
		return NULL;
	return kind == DSQ_PROMPT ? &llcx->prompt_head : &llcx->fair_head;
}

/*
 * How long a task may be the first of a DSQ. One that is not prompt and may run on one CPU only waits for its turn among all that
 * this CPU may take, as long as the policy allows; and the turns before it take their time.
 */
static __always_inline u64 stall_limit_ns(u64 dsq_id)
{
	u32 kind = dsq_id >> 32, index = dsq_id;
	const struct llc_ctx *llcx;
	s32 nr_fair;

	if (kind != DSQ_CPU_FAIR && kind != DSQ_FAIR)
		return STALL_LIMIT_NS;
	llcx = llc_ctx(kind == DSQ_FAIR ? index : cpu_llc(index));
	nr_fair = llcx ? READ_ONCE(llcx->nr_fair) : 0;
	return STALL_LIMIT_NS + 2 * policy_max_wait_ns(nr_fair > 0 ? nr_fair : 0, cpus_per_llc());
}

/*
 * How many of the DSQ's first tasks may be held to how long they have waited. With thousands of tasks in a DSQ of the policy
 * a fair turn takes longer than any limit, and nothing is wrong as long as turns are taken: there only the first counts, once
 * it has been the first for so long.
 */
VERIFIED_ONCE u32 nr_answerable(u64 dsq_id, u64 now)
{
	struct head_watch *watch = head_watch(dsq_id);
	u64 waits_since_ns = 0;
	struct task_struct *head;
	struct task_ctx *tctx;
	u32 pid = 0, weight = 0;

	if (!watch)
		return NR_STALL_SAMPLES;
	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(dsq_id);
	tctx = head ? task_ctx(head) : NULL;
	if (tctx) {
		pid = head->pid;
		waits_since_ns = tctx->wait_since_ns;
		/* What every CPU may take has what its LLC owes it. */
		if (is_cpu_dsq(dsq_id >> 32) || head->nr_cpus_allowed < nr_online)
			weight = tctx->own_weight;
	}
	bpf_rcu_read_unlock();
	WRITE_ONCE(watch->weight, weight);
	if (watch->pid != pid) {
		if (watch->pid != FIRST_UNKNOWN)
			watch->since_ns = now;
		watch->pid = pid;
	}
	/* It may have run since it was seen here last, and be the first once more. */
	if (waits_since_ns && signed_delta(waits_since_ns, watch->since_ns) > 0)
		watch->since_ns = waits_since_ns;
	return time_delta(now, watch->since_ns) > (s64)stall_limit_ns(dsq_id);
}

/* Looks at the first tasks of one DSQ. */
VERIFIED_ONCE int check_dsq(u64 dsq_id, u64 now)
{
	struct head_watch *watch = head_watch(dsq_id);
	s32 nr = scx_bpf_dsq_nr_queued(dsq_id);
	struct task_struct *p;

	if (nr <= 0) {
		if (watch)
			watch->pid = 0;
		return 0;
	}
	nr_found += nr;
	nr_seen = 0;
	WRITE_ONCE(nr_answerable_tasks, nr_answerable(dsq_id, now));
	WRITE_ONCE(stall_limit, stall_limit_ns(dsq_id));
	/* The verifier sees this from ops.init too, which sets the timer up and may sleep. */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		struct task_ctx *tctx = task_ctx(p);
		struct cpu_ctx *cpuc = cpu_ctx(scx_bpf_task_cpu(p));
		s64 waited, higher_class_ns;

		if (nr_seen++ >= NR_STALL_SAMPLES)
			break;
		if (!tctx || !cpuc)
			continue;
		correct_dsq(tctx, dsq_id);
		if (!READ_ONCE(cpuc->online))
			WRITE_ONCE(stranded_cpu, scx_bpf_task_cpu(p) + 1);
		if (!tctx->wait_since_ns)
			continue;
		waited = time_delta(now, tctx->wait_since_ns);
		higher_class_ns = signed_delta(cpu_higher_class_ns(cpuc, now), tctx->wait_higher_class_ns);
		if (nr_seen <= READ_ONCE(nr_answerable_tasks) &&
		    waited - (higher_class_ns > 0 ? higher_class_ns : 0) > (s64)READ_ONCE(stall_limit)) {
			scx_bpf_error("stall: %s[%d] has been runnable for %lld ms in queue %llx", p->comm, p->pid,
				      waited / (s64)NSEC_PER_MSEC, dsq_id);
			break;
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

VERIFIED_ONCE int check_dsqs(u64 now)
{
	u32 index;

	nr_found = 0;
	bpf_for(index, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(index);

		check_dsq(DSQ_ID(DSQ_CPU, index), now);
		check_dsq(DSQ_ID(DSQ_CPU_PROMPT, index), now);
		check_dsq(DSQ_ID(DSQ_CPU_FAIR, index), now);
		if (cpuc && !cpuc->online && cpuc->nr_own + cpuc->nr_own_prompt + cpuc->nr_own_fair > 0)
			WRITE_ONCE(stranded_cpu, index + 1);
	}
	bpf_for(index, 0, nr_llcs) {
		check_dsq(DSQ_ID(DSQ_INTERACTIVE, index), now);
		check_dsq(DSQ_ID(DSQ_BATCH, index), now);
		check_dsq(DSQ_ID(DSQ_FIFO, index), now);
		check_dsq(DSQ_ID(DSQ_PROMPT, index), now);
		check_dsq(DSQ_ID(DSQ_FAIR, index), now);
	}
	return 0;
}

/* Wakes sleepers for batch work that is late: in low-power nothing else does. */
VERIFIED_ONCE int kick_for_late_batch(u64 now)
{
	u32 llc;

	bpf_for(llc, 0, nr_llcs) {
		if (batch_is_late(llc, now) || fair_is_late(llc, now)) {
			kick_all(SCX_KICK_IDLE);
			break;
		}
	}
	return 0;
}

/* Degraded, and the notice has not been answered: it may not have found room in the ring. */
static __always_inline void remind_engine(const struct scherzo_control *page)
{
	u64 seq = READ_ONCE(degraded_seq);

	if (seq & 1 && READ_ONCE(page->recovered_seq) != seq && READ_ONCE(page->parked))
		wake_engine();
}

/* How far user space had read when it was looked at last, when that was, and since when it reads no further. */
static u64 read_to;
static u64 looked_ns;
static u64 unread_since_ns;

/*
 * User space leaves records unread although it was woken for them. It does not answer then, even if no task in flight gets
 * old because CPUs take all of them back. Records of tasks that exit are worth no wake-up by themselves, so it is woken here first.
 * A timer that was not run meanwhile, as during suspend, says nothing about user space.
 */
VERIFIED_ONCE int leaves_records_unread(const struct scherzo_control *page, u64 now)
{
	u64 position = bpf_ringbuf_query(&queued_tasks, BPF_RB_CONS_POS);
	s64 unread_ns;

	if (position != read_to || !bpf_ringbuf_query(&queued_tasks, BPF_RB_AVAIL_DATA) ||
	    time_delta(now, looked_ns) > (s64)(2 * WATCHDOG_PERIOD_NS)) {
		read_to = position;
		unread_since_ns = now;
	}
	looked_ns = now;
	unread_ns = time_delta(now, unread_since_ns);
	if (unread_ns >= (s64)UNREAD_LIMIT_NS && page && READ_ONCE(page->parked))
		wake_engine();
	return unread_ns >= (s64)(2 * UNREAD_LIMIT_NS);
}

static int watchdog(void *map, int *key, struct bpf_timer *timer)
{
	struct scherzo_control *page = control_page();
	u64 now = clock_now();

	if (!page)
		return 0;
	wake_engine_for_backlog(page, now, false);
	remind_engine(page);
	try_recover(page, now);
	check_dsqs(now);
	WRITE_ONCE(page->nr_in_flight, READ_ONCE(nr_in_flight));
	/* A CPU that changed it meanwhile may have written before us. The atomic orders. */
	WRITE_ONCE(page->nr_in_flight, __sync_fetch_and_add(&nr_in_flight, 0));
	WRITE_ONCE(page->nr_waiting, nr_found + READ_ONCE(nr_in_flight));
	WRITE_ONCE(page->nr_running, page->nr_online_cpus - READ_ONCE(nr_idle));
	if ((READ_ONCE(nr_in_flight) > 0 && oldest_flight_ns(now) > FLIGHT_LIMIT_NS) ||
	    (!control_word(page).kernel_seat && leaves_records_unread(page, now)))
		degrade(page, now);
	/* Entries that a dispatch did not get to sweep need another one. */
	if (READ_ONCE(nr_in_flight) > 0 && is_degraded())
		kick_all(0);
	if (READ_ONCE(stranded_cpu))
		kick_all(0);
	else
		kick_for_late_batch(now);

	if (nr_found || READ_ONCE(nr_in_flight) > 0 || is_degraded()) {
		bpf_timer_start(timer, WATCHDOG_PERIOD_NS, 0);
		return 0;
	}
	/* A full barrier: a submission that saw the timer armed has made its entry visible by now. */
	__sync_lock_test_and_set(&watchdog_armed, 0);
	if (READ_ONCE(nr_in_flight) > 0)
		arm_watchdog();
	return 0;
}

static int init_watchdog(void)
{
	u32 zero = 0;
	struct watchdog *timer = bpf_map_lookup_elem(&watchdog_timer, &zero);

	if (!timer || bpf_timer_init(&timer->timer, &watchdog_timer, CLOCK_MONOTONIC))
		return -EINVAL;
	return bpf_timer_set_callback(&timer->timer, watchdog);
}

#endif /* SCHERZO_WATCHDOG_BPF_H */
