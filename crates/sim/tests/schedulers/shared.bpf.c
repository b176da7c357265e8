// SPDX-License-Identifier: GPL-2.0-only
/* One queue for all CPUs, by virtual runtime or by arrival: what src/baseline.rs does, as a scheduler in BPF. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED 0

const volatile bool by_arrival;

UEI_DEFINE(uei);

/* Virtual runtime of the task that ran last. */
static u64 clock_ns;
static u32 nr_inits_left = 1;

struct task_ctx {
	u64 vruntime_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* A second map of tasks: how often each ran. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} task_runs SEC(".maps");

/* How many tasks this CPU has begun to run, and its own number, counted from one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u64));
	__uint(max_entries, 2);
} cpu_notes SEC(".maps");

/* How many all CPUs have. */
static u64 nr_runs;

static void note_cpu(void)
{
	u32 runs_key = 0, number_key = 1;
	u64 *runs = bpf_map_lookup_elem(&cpu_notes, &runs_key);
	u64 *number = bpf_map_lookup_elem(&cpu_notes, &number_key);
	u64 this_cpu = bpf_get_smp_processor_id() + 1;

	if (!runs || !number)
		return;
	if (*number && *number != this_cpu)
		scx_bpf_error("CPU %llu has the notes of CPU %llu", this_cpu - 1, *number - 1);
	*number = this_cpu;
	if (++*runs > nr_runs)
		scx_bpf_error("CPU %llu has run more tasks than all CPUs", this_cpu - 1);
}

s32 BPF_STRUCT_OPS(shared_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

void BPF_STRUCT_OPS(shared_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u64 least_ns = clock_ns > SCX_SLICE_DFL ? clock_ns - SCX_SLICE_DFL : 0;

	if (!tctx) {
		scx_bpf_error("%s[%d] is not known", p->comm, p->pid);
	} else if (by_arrival) {
		scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
	} else {
		tctx->vruntime_ns = tctx->vruntime_ns > least_ns ? tctx->vruntime_ns : least_ns;
		scx_bpf_dsq_insert_vtime(p, SHARED, SCX_SLICE_DFL, tctx->vruntime_ns, enq_flags);
	}
}

void BPF_STRUCT_OPS(shared_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED);
}

void BPF_STRUCT_OPS(shared_running, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u64 *runs = bpf_task_storage_get(&task_runs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!tctx || !runs)
		return;
	if (time_before(clock_ns, tctx->vruntime_ns))
		clock_ns = tctx->vruntime_ns;
	nr_runs++;
	if (++*runs > nr_runs)
		scx_bpf_error("%s[%d] has run more often than all tasks", p->comm, p->pid);
	note_cpu();
}

/* What is left of the slice has not been used. */
void BPF_STRUCT_OPS(shared_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (tctx)
		tctx->vruntime_ns += (SCX_SLICE_DFL - p->scx.slice) * 100 / p->scx.weight;
}

s32 BPF_STRUCT_OPS(shared_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!tctx)
		return -ENOMEM;
	tctx->vruntime_ns = clock_ns;
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(shared_init)
{
	u32 zero = 0;
	u64 *runs = bpf_map_lookup_elem(&cpu_notes, &zero);

	/* Variables and maps are as at the beginning, whatever ran before. */
	if (!runs || *runs || nr_runs || clock_ns || !nr_inits_left--)
		return -EBUSY;
	return scx_bpf_create_dsq(SHARED, -1);
}

void BPF_STRUCT_OPS(shared_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(shared_ops,
	       .select_cpu		= (void *)shared_select_cpu,
	       .enqueue			= (void *)shared_enqueue,
	       .dispatch		= (void *)shared_dispatch,
	       .running			= (void *)shared_running,
	       .stopping		= (void *)shared_stopping,
	       .init_task		= (void *)shared_init_task,
	       .init			= (void *)shared_init,
	       .exit			= (void *)shared_exit,
	       .name			= "shared");
