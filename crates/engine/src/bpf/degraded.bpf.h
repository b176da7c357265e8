/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * degraded.bpf.h: user space does not answer, and BPF schedules alone.
 *
 * When the oldest entry gets older than the limit (the watchdog timer looks while there are entries), BPF degrades: new work
 * goes to DSQs ordered by arrival, and dispatches sweep the entries into the same DSQs. User space is trusted again
 * when it has answered the notice and a cooldown has passed, which doubles while it keeps failing.
 */
#ifndef SCHERZO_DEGRADED_BPF_H
#define SCHERZO_DEGRADED_BPF_H

#include "control.bpf.h"
#include "count.bpf.h"
#include "flight.bpf.h"
#include "queue.bpf.h"

#define COOLDOWN_MIN_NS (200 * NSEC_PER_MSEC)
#define COOLDOWN_MAX_NS (3200 * NSEC_PER_MSEC)
/* A failure that soon after a recovery doubles the cooldown. */
#define RELAPSE_NS (5000 * NSEC_PER_MSEC)

/* How long user space must be back before it is trusted again; grows when it keeps failing. */
static u64 degraded_cooldown_ns;
static u64 answered_at_ns; /* when its answer was first seen, 0 if not yet */
static u64 recovered_at_ns;

static void degrade(struct scherzo_control *page, u64 now)
{
	u64 seq = READ_ONCE(degraded_seq);

	if (seq & 1 || __sync_val_compare_and_swap(&degraded_seq, seq, seq + 1) != seq)
		return;
	WRITE_ONCE(page->degraded_seq, seq + 1);
	if (recovered_at_ns && time_delta(now, recovered_at_ns) < (s64)RELAPSE_NS)
		degraded_cooldown_ns = degraded_cooldown_ns * 2 > COOLDOWN_MAX_NS ? COOLDOWN_MAX_NS : degraded_cooldown_ns * 2;
	else
		degraded_cooldown_ns = COOLDOWN_MIN_NS;
	WRITE_ONCE(answered_at_ns, 0);
	WRITE_ONCE(page->degraded_since_ns, now);
	send_notice();
	/* Sweeping needs dispatches: CPUs that sleep are woken, others get there when their slice ends. */
	kick_all(0);
}

/* Back to user space once it has answered this very notice and the cooldown has passed since. */
static __always_inline void try_recover(struct scherzo_control *page, u64 now)
{
	u64 seq = READ_ONCE(degraded_seq);

	if (!(seq & 1) || READ_ONCE(page->recovered_seq) != seq)
		return;
	if (!READ_ONCE(answered_at_ns))
		WRITE_ONCE(answered_at_ns, now);
	if (time_delta(now, READ_ONCE(answered_at_ns)) < (s64)degraded_cooldown_ns)
		return;
	if (__sync_val_compare_and_swap(&degraded_seq, seq, seq + 1) != seq)
		return;
	WRITE_ONCE(page->degraded_seq, seq + 1);
	WRITE_ONCE(recovered_at_ns, now);
}

/* Age of the oldest entry among 64 slots. */
VERIFIED_ONCE u64 oldest_of_word(u32 index, u64 now)
{
	u64 *word = bpf_map_lookup_elem(&flight_bits, &index);
	u64 bits = word ? READ_ONCE(*word) : 0;
	s64 oldest = 0;
	u32 bit;

	bpf_for(bit, 0, 64) {
		struct flight *flight;
		s64 age;

		if (!bits)
			break;
		flight = slot_flight(index * 64 + ctzll(bits));
		bits &= bits - 1;
		/*
		 * A CPU that takes a task back before its bit is set leaves the bit. The atomic, whose value is used, orders:
		 * a time that was read before the word could be that of the last flight, on architectures that reorder loads.
		 */
		if (!flight || !(__sync_fetch_and_add(&flight->word, 0) & USER_OWNED))
			continue;
		age = time_delta(now, READ_ONCE(flight->submitted_ns));
		if (age > oldest)
			oldest = age;
	}
	return oldest;
}

/* Age of the oldest entry, 0 if there is none. */
VERIFIED_ONCE u64 oldest_flight_ns(u64 now)
{
	u64 oldest = 0;
	u32 group, bit;

	bpf_for(group, 0, NR_FLIGHT_GROUPS) {
		u64 bits = READ_ONCE(flight_groups[group & (NR_FLIGHT_GROUPS - 1)]);

		bpf_for(bit, 0, 64) {
			u64 age;

			if (!bits)
				break;
			age = oldest_of_word(group * 64 + ctzll(bits), now);
			bits &= bits - 1;
			if (age > oldest)
				oldest = age;
		}
	}
	return oldest;
}

VERIFIED_ONCE int sweep_slot(u32 index, u64 now)
{
	struct scherzo_control *page = control_page();
	struct flight *flight = slot_flight(index);
	struct task_struct *p;
	u64 word;

	if (!page || !flight)
		return 0;
	word = READ_ONCE(flight->word);
	if (!(word & USER_OWNED) || !reclaim(page, flight, index, word >> 1))
		return 0;
	p = bpf_task_from_pid(flight->pid);
	if (!p) {
		count(SCHERZO_CNT_LEFT);
		return 0;
	}
	queue_task(p, QUEUE_SWEPT, control_word(page), 0, NULL);
	bpf_task_release(p);
	return 0;
}

/* Takes back the entries among 64 slots; false when there is no dispatch slot left. */
VERIFIED_ONCE int sweep_word(u32 index, u64 now)
{
	u64 *word = bpf_map_lookup_elem(&flight_bits, &index);
	u64 bits = word ? READ_ONCE(*word) : 0;
	u32 bit;

	bpf_for(bit, 0, 64) {
		if (!bits)
			break;
		if (!scx_bpf_dispatch_nr_slots())
			return false;
		sweep_slot(index * 64 + ctzll(bits), now);
		bits &= bits - 1;
	}
	return true;
}

/* From ops.dispatch while degraded: takes back as many entries as there are dispatch slots. */
VERIFIED_ONCE int sweep_in_flight(u64 now)
{
	u32 group, bit;

	bpf_for(group, 0, NR_FLIGHT_GROUPS) {
		u64 bits = READ_ONCE(flight_groups[group & (NR_FLIGHT_GROUPS - 1)]);

		bpf_for(bit, 0, 64) {
			if (!bits)
				break;
			if (!sweep_word(group * 64 + ctzll(bits), now))
				return 0;
			bits &= bits - 1;
		}
	}
	return 0;
}

#endif /* SCHERZO_DEGRADED_BPF_H */
