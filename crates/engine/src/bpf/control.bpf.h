/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * control.bpf.h: the control word, and what follows from it: the order, the slice, and where the policy is applied.
 */
#ifndef SCHERZO_CONTROL_BPF_H
#define SCHERZO_CONTROL_BPF_H

#include "state.bpf.h"

/* The control word, read once per callback. */
struct control_word {
	u8 mode;
	u8 order;
	bool preemption : 1;
	bool full_user : 1;
	bool own_idle : 1;
	bool whole_cores : 1;
	bool numa_local : 1;
	bool kernel_seat : 1;
	u32 generation;
};

_Static_assert(sizeof(struct control_word) == 8, "passed in one register");

static __always_inline struct control_word control_word(const struct scherzo_control *page)
{
	u64 word = READ_ONCE(page->word);
	u64 flags = word >> SCHERZO_CONTROL_FLAGS_SHIFT;

	return (struct control_word){
		.mode = word >> SCHERZO_CONTROL_MODE_SHIFT,
		.preemption = flags & SCHERZO_FLAG_PREEMPTION,
		.full_user = flags & SCHERZO_FLAG_FULL_USER,
		.own_idle = flags & SCHERZO_FLAG_OWN_IDLE,
		.whole_cores = flags & SCHERZO_FLAG_WHOLE_CORES,
		.numa_local = flags & SCHERZO_FLAG_NUMA_LOCAL,
		.kernel_seat = flags & SCHERZO_FLAG_KERNEL_SEAT && !(flags & SCHERZO_FLAG_FULL_USER),
		.order = word >> SCHERZO_CONTROL_ORDER_SHIFT,
		.generation = word >> SCHERZO_CONTROL_GENERATION_SHIFT,
	};
}

/* The same as a plain number and back: functions that are verified once take nothing else. */
static __always_inline u64 word_bits(struct control_word word)
{
	u64 bits;

	__builtin_memcpy(&bits, &word, sizeof(bits));
	return bits;
}

static __always_inline struct control_word word_of(u64 bits)
{
	struct control_word word;

	__builtin_memcpy(&word, &bits, sizeof(word));
	return word;
}

/*
 * While degraded there is no engine to ask. BPF has the account of every task and goes on by itself; of a policy for study it knows
 * nothing, and orders by arrival.
 */
static __always_inline bool leaves_order_to_arrival(void)
{
	return study_policy && is_degraded();
}

static __always_inline u8 effective_order(struct control_word word)
{
	return leaves_order_to_arrival() ? SCHERZO_ORDER_FIFO : word.order;
}

static __always_inline u64 default_slice_ns(const struct scherzo_control *page)
{
	u64 slice_ns = READ_ONCE(page->slice_ns);

	return slice_ns && slice_ns <= SLICE_MAX_NS ? slice_ns : 5 * NSEC_PER_MSEC;
}

#endif /* SCHERZO_CONTROL_BPF_H */
