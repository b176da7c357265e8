/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * run_timer.bpf.h: a run that ends between two ticks.
 *
 * The kernel looks at slices at its ticks, which are up to 10 ms apart. What has to end sooner, because a limit of a control group
 * is used up, because it is a turn against the task's weight, or because slices are short, is ended by a timer of the CPU. One that is
 * started anew forgets the earlier time, so that is looked at first; one that comes for a run that is over finds another time, or
 * none.
 */
#ifndef SCHERZO_RUN_TIMER_BPF_H
#define SCHERZO_RUN_TIMER_BPF_H

#include "state.bpf.h"

/* The clock and the timers may differ by so much. */
#define TIMER_SLACK_NS (20 * NSEC_PER_USEC)

struct run_timer {
	struct bpf_timer timer;
};

/* One for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_CPU_WORDS * 64);
	__type(key, u32);
	__type(value, struct run_timer);
} run_timers SEC(".maps");

/* The run on this CPU ends then, if not sooner. */
VERIFIED_ONCE int end_run_after(struct cpu_ctx *cpuc, s32 cpu, u64 run_ns, u64 now)
{
	struct run_timer *timer;
	u32 index = cpu;
	u64 ends_ns;

	if (!cpuc)
		return 0;
	ends_ns = READ_ONCE(cpuc->run_ends_ns);
	if (ends_ns && signed_delta(ends_ns, now) > 0 && signed_delta(ends_ns, now + run_ns) <= 0)
		return 0;
	timer = bpf_map_lookup_elem(&run_timers, &index);
	WRITE_ONCE(cpuc->run_ends_ns, now + run_ns);
	if (timer)
		bpf_timer_start(&timer->timer, run_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

static int end_run(void *map, int *key, struct bpf_timer *timer)
{
	s32 cpu = *key;
	struct cpu_ctx *cpuc = cpu_ctx(cpu);
	u64 ends_ns = cpuc ? READ_ONCE(cpuc->run_ends_ns) : 0;
	s64 left_ns = signed_delta(ends_ns, clock_now());

	if (!ends_ns)
		return 0;
	if (left_ns > (s64)TIMER_SLACK_NS)
		bpf_timer_start(timer, left_ns, BPF_F_TIMER_CPU_PIN);
	else
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

VERIFIED_ONCE int init_run_timers(void)
{
	s64 err = 0;
	u32 index;

	bpf_for(index, 0, nr_cpu_slots) {
		u32 cpu = index;
		struct run_timer *timer = bpf_map_lookup_elem(&run_timers, &cpu);

		if (!timer || bpf_timer_init(&timer->timer, &run_timers, CLOCK_MONOTONIC))
			break;
		err = err ?: bpf_timer_set_callback(&timer->timer, end_run);
	}
	return err;
}

#endif /* SCHERZO_RUN_TIMER_BPF_H */
