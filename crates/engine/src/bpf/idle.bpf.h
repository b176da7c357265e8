/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * idle.bpf.h: which of the idle CPUs a task gets.
 *
 * Where all cores are alike, the kernel's built-in selection or a search of our own, as the settings say. Neither knows of
 * fast and slow cores: where there are both, idle CPUs are asked in the order of what they give (find_idle_by_kind()), and
 * a task that computes on a slow core is moved to a fast one that idles (begins_to_move_up()). On other machines the verifier
 * removes all of that.
 */
#ifndef SCHERZO_IDLE_BPF_H
#define SCHERZO_IDLE_BPF_H

#include "control.bpf.h"
#include "kind.bpf.h"
#include "state.bpf.h"

/* Whether the task may use this CPU; false for a negative number. */
VERIFIED_ONCE bool may_run_on(struct task_struct *p __arg_trusted, s32 cpu)
{
	bool may;

	if (cpu < 0)
		return false;
	/* The verifier sees this from ops.init too, which sets timers up and may sleep. */
	bpf_rcu_read_lock();
	may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	bpf_rcu_read_unlock();
	return may;
}

/*
 * Whether the task has migration disabled for the moment. scx's is_migration_disabled() asks the kernel's configuration,
 * without which nothing could be loaded where that cannot be read; the types tell the same. The prolog of this very program
 * may have disabled migration of the current task once, which then says nothing about it: it does under CONFIG_PREEMPT_RCU,
 * of which rcu_read_lock_nesting is a sign, and otherwise before 6.18, which scx measures when the scheduler is registered.
 * Up to 6.18 a task is re-enqueued from within ops.cpu_release, whose prolog has done so as well.
 */
static __always_inline bool may_not_migrate(const struct task_struct *p, u64 enq_flags)
{
	u32 nr_programs = !reenqueue_anywhere && enq_flags & SCX_ENQ_REENQ ? 2 : 1;
	bool by_prolog;

	if (!bpf_core_field_exists(p->migration_disabled))
		return false;
	by_prolog = bpf_core_field_exists(p->rcu_read_lock_nesting) || __scx_prolog_disables_migration;
	if (p->migration_disabled && p->migration_disabled <= nr_programs && by_prolog)
		return bpf_get_current_task_btf() != p;
	return p->migration_disabled;
}

/* The next idle CPU of these that the kernel's masks give. */
static __always_inline s32 pick_marked_cpu(const struct cpumask *allowed, s32 node, u64 flags)
{
	return per_node_idle ? scx_bpf_pick_idle_cpu_node(allowed, node, flags) : scx_bpf_pick_idle_cpu(allowed, flags);
}

/* Any idle CPU that the task may use, from the kernel's masks. */
VERIFIED_ONCE s32 pick_idle_cpu(struct task_struct *p __arg_trusted, u64 flags)
{
	const struct cpumask *allowed;
	struct cpu_ctx *cpuc;
	s32 cpu = -1, node, attempt;

	/* As in may_run_on(). */
	bpf_rcu_read_lock();
	allowed = p->cpus_ptr;
	node = per_node_idle ? scx_bpf_cpu_node(scx_bpf_task_cpu(p)) : 0;
	/* Those that go offline get no dispatch, and would be woken in vain. One that was picked is not marked any more. */
	bpf_for(attempt, 0, nr_cpu_slots) {
		cpu = pick_marked_cpu(allowed, node, flags);
		cpuc = cpu >= 0 ? cpu_ctx(cpu) : NULL;
		if (!cpuc || cpuc->online)
			break;
	}
	bpf_rcu_read_unlock();
	return cpu;
}

/* An idle CPU of the same NUMA node; -1 if there is none. */
VERIFIED_ONCE s32 idle_cpu_near(struct task_struct *p __arg_trusted, s32 near_cpu)
{
	int node = __COMPAT_scx_bpf_cpu_node(near_cpu);
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (cpuc && cpuc->idle && may_run_on(p, cpu) && __COMPAT_scx_bpf_cpu_node(cpu) == node &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* Whether all threads of the CPU's core idle. */
static __noinline bool is_idle_core(s32 cpu)
{
	const struct cpumask *cores;
	bool idle;

	if (per_node_idle)
		cores = __COMPAT_scx_bpf_get_idle_smtmask_node(__COMPAT_scx_bpf_cpu_node(cpu));
	else
		cores = scx_bpf_get_idle_smtmask();
	idle = bpf_cpumask_test_cpu(cpu, cores);
	scx_bpf_put_idle_cpumask(cores);
	return idle;
}

/*
 * An idle CPU of fast or of slow cores, without taking it; -1 if there is none. The one that the task was on comes first,
 * its neighbours next.
 */
VERIFIED_ONCE s32 idle_cpu_of_kind(struct task_struct *p __arg_trusted, s32 prev_cpu, bool slow, bool whole_core)
{
	s32 step;

	bpf_for(step, 0, nr_cpu_slots) {
		s32 cpu = prev_cpu + step;
		struct cpu_ctx *cpuc;

		if (cpu >= nr_cpu_slots)
			cpu -= nr_cpu_slots;
		cpuc = cpu_ctx(cpu);
		if (!cpuc || !cpuc->idle || cpuc->slow != slow || !may_run_on(p, cpu))
			continue;
		if (!whole_core || is_idle_core(cpu))
			return cpu;
	}
	return -1;
}

/*
 * Fast cores first, then slow ones, and only then what is left: a second thread of a fast core that is busy gives less than a
 * slow core does, and takes from the first. A task that ran briefly the last time keeps its cache: it would be done by the
 * time that another core has woken up.
 */
VERIFIED_ONCE s32 find_idle_by_kind(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 bits)
{
	struct control_word word = word_of(bits);
	struct task_ctx *tctx = task_ctx(p);
	s32 cpu = -1;

	if (tctx && tctx->last_burst_ns && tctx->last_burst_ns < BRIEF_NS && may_run_on(p, prev_cpu) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	if (word.whole_cores) {
		cpu = idle_cpu_of_kind(p, prev_cpu, false, true);
		if (cpu < 0)
			cpu = idle_cpu_of_kind(p, prev_cpu, true, true);
	}
	if (cpu < 0)
		cpu = idle_cpu_of_kind(p, prev_cpu, false, false);
	if (cpu >= 0 && scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	/* What is left, also when another CPU was faster: no CPU stays idle because of its kind. */
	return pick_idle_cpu(p, 0);
}

/* Our own search, in place of the kernel's built-in selection: whole cores, the CPU it was on, its node, anywhere. */
VERIFIED_ONCE s32 find_idle_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 bits)
{
	struct control_word word = word_of(bits);
	s32 cpu;

	if (cores_differ)
		return find_idle_by_kind(p, prev_cpu, bits);
	if (word.whole_cores) {
		cpu = pick_idle_cpu(p, SCX_PICK_IDLE_CORE);
		if (cpu >= 0)
			return cpu;
	}
	if (may_run_on(p, prev_cpu) && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	if (word.numa_local) {
		cpu = idle_cpu_near(p, prev_cpu);
		if (cpu >= 0)
			return cpu;
	}
	return pick_idle_cpu(p, 0);
}

/*
 * The task computes on a slow core while a fast one idles that it may use: true, and noted, if its slice is to end for that.
 * Not for a task that is about to sleep anyway, nor where low-power packs work on slow cores on purpose. No task is ever
 * moved down, so none goes back and forth.
 */
static __always_inline bool begins_to_move_up(struct task_struct *p, const struct cpu_ctx *cpuc, s32 cpu,
					      struct control_word word)
{
	struct task_ctx *tctx;

	if (!cores_differ || !cpuc->slow || word.mode == SCHERZO_MODE_LOW_POWER || word.full_user || is_pinned(p) ||
	    is_engine(p) || READ_ONCE(nr_idle) <= 0)
		return false;
	tctx = task_ctx(p);
	if (!tctx || tctx->burst_ns + time_delta(clock_now(), tctx->started_ns) < BURST_MIN_NS)
		return false;
	tctx->moves_up = idle_cpu_of_kind(p, cpu, false, word.whole_cores) >= 0;
	return tctx->moves_up;
}

#endif /* SCHERZO_IDLE_BPF_H */
