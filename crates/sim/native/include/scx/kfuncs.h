/* SPDX-License-Identifier: GPL-2.0-only */
/* The kfuncs of sched_ext and the helpers that answer from the machine; kfuncs.rs defines them. */
#ifndef SIM_KFUNCS_H
#define SIM_KFUNCS_H

u64 bpf_ktime_get_ns(void);
u64 scx_bpf_now(void);
void sim_change_map(void);
u32 bpf_get_smp_processor_id(void);
struct task_struct *bpf_get_current_task_btf(void);
struct task_struct *bpf_task_from_pid(s32 pid);

static inline void bpf_task_release(struct task_struct *p)
{
}

s32 scx_bpf_task_cpu(const struct task_struct *p);
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);
s32 scx_bpf_dsq_nr_queued(u64 dsq_id);
struct task_struct *sim_dsq_peek(u64 dsq_id);
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags);
bool sim_dsq_move_to_local(u64 dsq_id, u64 enq_flags);
bool sim_dsq_move(u64 walk, struct task_struct *p, u64 dsq_id, u64 enq_flags, bool by_vtime, u64 slice, u64 vtime);
u32 scx_bpf_dispatch_nr_slots(void);
void sim_task_set_slice(struct task_struct *p, u64 slice);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);
u32 scx_bpf_reenqueue_local(void);
void sim_reenqueue_local_anywhere(void);
void scx_bpf_cpuperf_set(s32 cpu, u32 performance);

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags);
s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *allowed, s32 node, u64 flags);
const struct cpumask *scx_bpf_get_online_cpumask(void);
const struct cpumask *scx_bpf_get_idle_smtmask(void);
s32 scx_bpf_cpu_node(s32 cpu);

u64 sim_iter_dsq_new(u64 dsq_id);
struct task_struct *sim_iter_dsq_next(u64 state);
void sim_iter_dsq_destroy(u64 state);

__attribute__((format(printf, 1, 2))) void sim_error(char *format, ...);

#define scx_bpf_error(format, ...) sim_error(format, ##__VA_ARGS__)

/*
 * What scx_bpf_*() are called with where kernels differ is decided in the headers of scx, before the kernel sees it. Older schedulers
 * move tasks to the local queue without flags.
 */
#define scx_bpf_dsq_move_to_local(dsq_id, ...) sim_dsq_move_to_local(dsq_id, 0ULL __VA_OPT__(| (__VA_ARGS__)))
#define scx_bpf_dsq_move_set_slice(iter, new_slice) ((iter)->slice = (new_slice))
#define scx_bpf_dsq_move_set_vtime(iter, new_vtime) ((iter)->vtime = (new_vtime), (iter)->has_vtime = true)
#define scx_bpf_dsq_move(iter, p, dsq_id, enq_flags) sim_dsq_move_from(iter, p, dsq_id, enq_flags, false)
#define scx_bpf_dsq_move_vtime(iter, p, dsq_id, enq_flags) sim_dsq_move_from(iter, p, dsq_id, enq_flags, true)
#define scx_bpf_task_set_slice(p, slice) sim_task_set_slice(p, slice)
#define scx_bpf_reenqueue_local_from_anywhere() sim_reenqueue_local_anywhere()

/* Names that are no more: up to 6.12, and of the time before sched_ext was in the kernel. */
#define scx_bpf_dispatch(p, dsq_id, slice, enq_flags) scx_bpf_dsq_insert(p, dsq_id, slice, enq_flags)
#define scx_bpf_dispatch_vtime(p, dsq_id, slice, vtime, enq_flags) scx_bpf_dsq_insert_vtime(p, dsq_id, slice, vtime, enq_flags)
#define scx_bpf_consume(dsq_id) sim_dsq_move_to_local(dsq_id, 0)
#define __COMPAT_scx_bpf_switch_all() ((void)0)

#define __COMPAT_scx_bpf_dsq_peek(dsq_id) sim_dsq_peek(dsq_id)
#define __COMPAT_scx_bpf_cpu_node(cpu) scx_bpf_cpu_node(cpu)
#define __COMPAT_scx_bpf_get_idle_smtmask_node(node) scx_bpf_get_idle_smtmask()

static inline void scx_bpf_put_cpumask(const struct cpumask *mask)
{
}

static inline void scx_bpf_put_idle_cpumask(const struct cpumask *mask)
{
}

static inline bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SIM_MAX_CPUS && mask->bits[cpu / 64] >> (cpu & 63) & 1;
}

static inline u32 bpf_cpumask_first(const struct cpumask *mask)
{
	u32 word;

	for (word = 0; word < SIM_MAX_CPUS / 64; word++) {
		if (mask->bits[word])
			return word * 64 + __builtin_ctzll(mask->bits[word]);
	}
	return SIM_MAX_CPUS;
}

/*
 * CO-RE questions. This kernel has every field that the scheduler asks about, the mark of CONFIG_PREEMPT_RCU too: the prolog of
 * BPF programs disables the migration of the task that they run on (Machine::bpf()).
 */
/* To schedulers that are loaded all fields are there; of the one that is compiled in, glue.c answers by the kernel's configuration. */
#ifndef bpf_core_field_exists
#define bpf_core_field_exists(field) 1
#endif
static const bool __scx_prolog_disables_migration;

/* What was set for the move holds for one. */
static inline bool sim_dsq_move_from(struct bpf_iter_scx_dsq *iter, struct task_struct *p, u64 dsq_id, u64 enq_flags,
				     bool by_vtime)
{
	u64 slice = iter->slice, vtime = iter->has_vtime ? iter->vtime : p->scx.dsq_vtime;

	iter->slice = 0;
	iter->has_vtime = false;
	return sim_dsq_move(iter->state, p, dsq_id, enq_flags, by_vtime, slice, vtime);
}

static inline void sim_iter_dsq_end(struct bpf_iter_scx_dsq *iter)
{
	sim_iter_dsq_destroy(iter->state);
}

#define BPF_FOR_EACH_ITER (&sim_iter)
#define bpf_for_each(type, p, dsq_id, flags)                                                                 \
	for (struct bpf_iter_scx_dsq sim_iter __attribute__((cleanup(sim_iter_dsq_end))) = { .state = sim_iter_dsq_new(dsq_id) }; \
	     ((p) = sim_iter_dsq_next(sim_iter.state));)

#endif /* SIM_KFUNCS_H */
