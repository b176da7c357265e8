/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's types, with the fields that the scheduler uses. abi.rs mirrors those that Rust shares; tests/types compares with kernels.
 */
#ifndef SIM_TYPES_H
#define SIM_TYPES_H

#define SIM_MAX_CPUS 1024

struct cpumask {
	u64 bits[SIM_MAX_CPUS / 64];
};
typedef struct cpumask cpumask_t;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	s32 id;
	struct cgroup_subsys_state *parent;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	s32 level;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct cfs_bandwidth {
	s64 period;
	u64 quota;
	u64 burst;
};

struct scx_task_group {
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
};

struct task_group {
	struct cgroup_subsys_state css;
	s32 idle;
	u64 shares;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
	struct scx_task_group scx;
};

struct sched_ext_entity {
	u64 slice;
	u64 dsq_vtime;
	u32 weight;
	u32 flags;
};

struct sched_entity {
	unsigned char custom_slice;
	u64 sum_exec_runtime;
	u64 slice;
};

struct task_struct {
	u32 __state;
	u32 flags;
	s32 prio;
	s32 static_prio;
	u32 policy;
	s32 nr_cpus_allowed;
	s32 pid;
	s32 tgid;
	s32 exit_state;
	u64 nvcsw;
	struct sched_entity se;
	struct task_struct *real_parent;
	struct cpumask *cpus_ptr;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	struct sched_ext_entity scx;
	char comm[16];
	u16 migration_disabled;
	/* The simulator's own: the task's number and its local storage. */
	u32 sim_id;
	void *sim_storage;
};

struct scx_cpu_acquire_args {
};

struct scx_cpu_release_args {
	u32 reason;
	struct task_struct *task;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_exit_info {
	u32 kind;
	s64 exit_code;
};

struct bpf_timer {
	void *map;
	int (*callback)(void *map, int *key, struct bpf_timer *timer);
	u64 id;
};

struct bpf_dynptr {
	void *data;
	u32 size;
};

/* With what is to be set as a task is moved. */
struct bpf_iter_scx_dsq {
	u64 state;
	u64 slice;
	u64 vtime;
	bool has_vtime;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

#endif /* SIM_TYPES_H */
