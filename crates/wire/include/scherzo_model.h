/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scherzo_model.h: modes, classes and counters. `cargo xtask codegen` writes this file from crates/model: change that.
 */
#ifndef SCHERZO_MODEL_H
#define SCHERZO_MODEL_H

#define SCHERZO_WIRE_VERSION 8

enum scherzo_mode {
	/* Those with credit first, by deadline; the others by weighted virtual runtime */
	SCHERZO_MODE_INTERACTIVE = 0,
	/* Arrival order with a fixed slice */
	SCHERZO_MODE_FIFO = 1,
	/* As interactive, but batch work packs onto few CPUs and the others sleep */
	SCHERZO_MODE_LOW_POWER = 2,
};

enum scherzo_class {
	/* Not classified yet */
	SCHERZO_CLASS_UNKNOWN = 0,
	/* Sleeps often of its own will: goes first */
	SCHERZO_CLASS_INTERACTIVE = 1,
	/* Everything else */
	SCHERZO_CLASS_BATCH = 2,
	/* Scheduled by BPF alone: per-CPU and reclaim kernel threads */
	SCHERZO_CLASS_KERNEL = 3,
	SCHERZO_NR_CLASSES = 4,
};

enum scherzo_counter {
	/* Put on a CPU's own queue by BPF: an idle CPU's, its waker's, or that of a CPU about to be free */
	SCHERZO_CNT_DIRECT = 0,
	/* Preempted the task that ran on a CPU, by BPF: at the wake-up itself, or as user space asked */
	SCHERZO_CNT_PREEMPT = 1,
	/*
	 * Queued by BPF alone: per-CPU and reclaim kernel threads, tasks without a slot, tasks for which the ring was
	 * full, and every task while degraded
	 */
	SCHERZO_CNT_KERNEL = 2,
	/*
	 * Submitted to user space. A task that runs and is preempted again before user space has read its record counts
	 * twice with one record
	 */
	SCHERZO_CNT_SUBMITTED = 3,
	/* Of these, not interactive */
	SCHERZO_CNT_SUBMITTED_BATCH = 4,
	/* Dispatched by user space; what makes no sense in a record is replaced */
	SCHERZO_CNT_USER = 5,
	/*
	 * Dispatched tasks dropped because they came too late: the generation has changed, or user space no longer
	 * owned the task
	 */
	SCHERZO_CNT_CANCELLED = 6,
	/* Dispatched to a CPU that the task may no longer use: queued for any CPU instead */
	SCHERZO_CNT_BOUNCED = 7,
	/* Records of dispatched tasks that made no sense */
	SCHERZO_CNT_FAILED = 8,
	/* Not submitted because the ring was full */
	SCHERZO_CNT_CONGESTED = 9,
	/* Not submitted because no slot was left for the task */
	SCHERZO_CNT_OVERFLOW = 10,
	/* Reclaimed from user space while degraded */
	SCHERZO_CNT_SWEPT = 11,
	/*
	 * Ended their flight without being dispatched by user space: dequeued, exited, already running, or submitted
	 * anew
	 */
	SCHERZO_CNT_LEFT = 12,
	/* CPUs kicked by a mode change, a doorbell or the watchdog timer, or because a CPU went offline */
	SCHERZO_CNT_KICKED = 13,
	/* Taken from another LLC domain's queue */
	SCHERZO_CNT_STOLEN = 14,
	/* Ran on with a new slice because nothing else waited */
	SCHERZO_CNT_KEPT = 15,
	/*
	 * Queued again by BPF with the rest of the slice, after a higher scheduling class, the engine or an interactive
	 * task took the CPU
	 */
	SCHERZO_CNT_REQUEUED = 16,
	/* Moved away from a CPU that went offline, or sent to the kernel's own queue of such a CPU */
	SCHERZO_CNT_OFFLINE = 17,
	/* Notifications sent to the engine */
	SCHERZO_CNT_WAKE_ENGINE = 18,
	/* Enqueues of tasks that are not interactive and found no idle CPU */
	SCHERZO_CNT_CONTENDED_BATCH = 19,
	/* Ran on another CPU of the same LLC domain */
	SCHERZO_CNT_MIGRATED_LLC = 20,
	/* Ran on a CPU of another LLC domain */
	SCHERZO_CNT_MIGRATED_FAR = 21,
	/* Times a task was put on a CPU */
	SCHERZO_CNT_SWITCHES = 22,
	/*
	 * Preempted tasks reclaimed from user space before it had dispatched them: by the CPU they had left, to finish
	 * their slice, or by a CPU of the same LLC domain that had nothing else to run
	 */
	SCHERZO_CNT_RECLAIMED = 23,
	/*
	 * Interactive tasks that woke and were queued by BPF with the deadline and slice that user space had published
	 * for them
	 */
	SCHERZO_CNT_AS_CLASSIFIED = 24,
	/*
	 * Tasks of control groups beyond their limit that ran for a moment all the same, after they had been held up
	 * for 10 s
	 */
	SCHERZO_CNT_LIMIT_OVERRUN = 25,
	/* Slices for whose end a timer was set, as others waited and ticks are too far apart */
	SCHERZO_CNT_SLICE_TIMERS = 26,
	SCHERZO_NR_COUNTERS = 32,
};

#endif /* SCHERZO_MODEL_H */
