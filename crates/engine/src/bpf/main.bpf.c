// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scherzo's kernel side: the callbacks of the scheduler.
 *
 * Problem. A desktop stays responsive if a task that was asleep runs at once when it is woken, whatever else is busy, and
 * everything else gets its share. Shares take every start and stop of every task into account, and acting on a wake-up must
 * take microseconds and work when user space does not. Deciding is policy, best written and tested in user space.
 *
 * Approach. BPF keeps the accounts and acts; the policy decides by arithmetic that exists once (policy.h), here or in user space.
 *   - A task that finds an idle CPU gets it here (select_cpu, idle.bpf.h): policy has nothing to add.
 *   - A task that has credit follows its waker (follow.bpf.h), or takes a CPU from one that has none (preempt.bpf.h).
 *   - If there is no such CPU either, it enters an ordered DSQ, before those without credit (seat.bpf.h).
 *   - A task without credit that those with credit keep from its few CPUs has a turn all the same (overdue.bpf.h).
 *   - A task without credit has its turn decided where the policy has its seat: in BPF (seat.bpf.h), or in user space. Then
 *     its account goes up through a ring (flight.bpf.h) and its turn comes down through another (dispatched.bpf.h). It enters
 *     the same DSQ either way.
 *   - Per-CPU kernel threads, threads that reclaim memory, and the engine's own thread never pass through user space.
 *   - If user space does not answer, BPF decides alone until it does (degraded.bpf.h), and a timer looks after what waits
 *     (watchdog.bpf.h).
 *
 * A CPU picks its next task in dispatch.bpf.h. What happens when a task wakes, must wait, runs and stops is in wake.bpf.h,
 * enqueue.bpf.h and run.bpf.h.
 *
 * A policy for study keeps its own classes and deadlines in user space; what BPF does with these is in queue.bpf.h.
 *
 * Modes are a control word that each callback reads once; switching never unloads anything.
 *
 * Credits. The division of labour descends from scx_rustland (Andrea Righi), waking on a class of voluntary sleepers
 * from scx_bpfland (Andrea Righi), domains per last-level cache from scx_rusty (David Vernet, Tejun Heo).
 *
 * Limits. Cores are fast or slow (idle.bpf.h), without degrees between.
 */
#include "no_old_names.h"
#include <scx/common.bpf.h>
#include "scherzo_wire.h"

char _license[] SEC("license") = "GPL";

#include "lifecycle.bpf.h"
#include "reenqueue.bpf.h"
#include "run.bpf.h"

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
	       .disable			= (void *)scherzo_disable,
	       .exit_task		= (void *)scherzo_exit_task,
	       .init			= (void *)scherzo_init,
	       .exit			= (void *)scherzo_exit,
	       .flags			= SCX_OPS_ENQ_LAST | SCX_OPS_KEEP_BUILTIN_IDLE,
	       .dispatch_max_batch	= 128,
	       .timeout_ms		= 30000,
	       .name			= "scherzo");
