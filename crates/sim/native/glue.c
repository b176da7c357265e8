// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scheduler's own source, compiled for the host, and the only place that knows names from inside it.
 *
 * Its variables go into sections of their own: a run begins by restoring them, so that no run sees another.
 */
/* The fault that is asked for: BrokenCopy in fault.rs. */
enum sim_fault {
	SIM_LOST_TASK = 1,
	SIM_DOUBLE_DISPATCH,
	SIM_FORBIDDEN_CPU,
	SIM_FORGOTTEN_KICK,
	SIM_STARVED_CLASS,
	SIM_DIVISION_BY_ZERO,
	SIM_MISSING_BARRIER,
	SIM_EAGER_MESSAGES,
	SIM_SHIFT_TOO_FAR,
	SIM_ACCESS_THROUGH_NULL,
	SIM_INDEX_OUT_OF_BOUNDS,
	SIM_NULL_FOR_MASK,
	SIM_MISCOUNTED_FLIGHT,
	SIM_STALE_FLIGHT_BIT,
	SIM_UNCOUNTED_SUBMISSION,
	SIM_UNNOTED_IDLE,
};

static unsigned int sim_broken;
#define SIM_BROKEN(name) (sim_broken == SIM_##name)

/* Fields that the kernel's configuration leaves out: AbsentFields in profile.rs. */
enum sim_absent_fields {
	SIM_ABSENT_TASK_GROUP = 0x1,
	SIM_ABSENT_CFS_BANDWIDTH = 0x2,
	SIM_ABSENT_SCX_BANDWIDTH = 0x4,
};

static unsigned int sim_absent;

/* Nobody changes it during a run, so that CPUs which interrupt each other need not be interrupted for it. */
__attribute__((no_sanitize("thread"))) static _Bool sim_has_field(const char *field)
{
	unsigned int bit = 0;

	if (!sim_absent)
		return 1;
	if (__builtin_strstr(field, "->sched_task_group"))
		bit = SIM_ABSENT_TASK_GROUP;
	else if (__builtin_strstr(field, "->cfs_bandwidth."))
		bit = SIM_ABSENT_CFS_BANDWIDTH;
	else if (__builtin_strstr(field, "->scx.bw_"))
		bit = SIM_ABSENT_SCX_BANDWIDTH;
	return !(sim_absent & bit);
}

#define bpf_core_field_exists(field) sim_has_field(#field)

#pragma clang section bss = "sim_bss" data = "sim_data"
#include "main.bpf.c"
#pragma clang section bss = "" data = ""

#include "variables.h"

extern void *sim_map_resize(void *map, u64 value_size, u64 nr);

void sim_bpf_reset(void)
{
	restore_variables();
}

struct sim_config {
	u32 engine_pid;
	u32 nr_cpus;
	u32 nr_llcs;
	u32 fast_llc;
	u32 cores_differ;
	u32 reenqueue_anywhere;
	u32 schedutil;
	u32 broken;
	u32 absent;
};

void sim_bpf_configure(struct sim_config *config)
{
	engine_pid = config->engine_pid;
	nr_cpu_slots = config->nr_cpus;
	nr_llcs = config->nr_llcs;
	fast_llc = config->fast_llc;
	cores_differ = config->cores_differ;
	reenqueue_anywhere = config->reenqueue_anywhere;
	sim_broken = config->broken;
	sim_absent = config->absent;
	asks_for_performance = config->schedutil;
	/* The engine sets this before it loads the scheduler. */
	scherzo_ops.flags |= SCX_OPS_ENQ_MIGRATION_DISABLED;
	sim_map_resize(&cpu_stats, sizeof(*cpu_stats.value), config->nr_cpus);
	sim_map_resize(&cpu_ctxs, sizeof(*cpu_ctxs.value), config->nr_cpus);
	sim_map_resize(&llc_ctxs, sizeof(*llc_ctxs.value), config->nr_llcs);
}

void sim_bpf_describe_cpu(u32 cpu, u32 llc, u32 slow)
{
	struct cpu_ctx *cpuc = cpu_ctx(cpu);

	cpuc->llc = llc;
	cpuc->llc_known = true;
	cpuc->slow = slow;
}

void *sim_bpf_control(void)
{
	return control_page();
}

void *sim_bpf_slots(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&slots, &zero);
}

void *sim_bpf_cpu_stats(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_stats, &zero);
}

/* When the engine is to be woken for what it has not read, 0 if it is not. */
u64 sim_bpf_engine_due_ns(void)
{
	return engine_due_ns;
}

/* Since when user space has the task, 0 if it has not. */
u64 sim_bpf_in_flight_since(struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);
	struct flight *flight = tctx ? slot_flight(tctx->slot) : NULL;

	return flight && flight->pid == (u32)p->pid && flight->word & USER_OWNED ? flight->submitted_ns : 0;
}

s64 sim_bpf_nr_in_flight(void)
{
	return nr_in_flight;
}

struct sim_in_flight_counts {
	s64 nr_bits;
	s64 nr_owned;
};

/* How many slots are marked as in flight, and of how many of these user space is the owner. */
struct sim_in_flight_counts sim_bpf_in_flight_counts(void)
{
	struct sim_in_flight_counts counts = {};
	u32 index, group;

	for (index = 0; index < NR_FLIGHT_WORDS; index++) {
		u64 *word, bits;

		group = index / 64;
		if (!(flight_groups[group] >> (index & 63) & 1))
			continue;
		word = bpf_map_lookup_elem(&flight_bits, &index);
		for (bits = word ? *word : 0; bits; bits &= bits - 1) {
			counts.nr_bits++;
			counts.nr_owned += slot_flight(index * 64 + ctzll(bits))->word & USER_OWNED;
		}
	}
	return counts;
}

/* The arithmetic of limits, for its tests. */
u64 sim_bandwidth_periods(u64 began_ns, u64 now, u64 period_ns)
{
	return bandwidth_periods(began_ns, now, period_ns);
}

s64 sim_bandwidth_refill(s64 balance_ns, u64 nr_periods, u64 quota_ns, u64 period_ns, u64 burst_ns)
{
	return bandwidth_refill(balance_ns, nr_periods, quota_ns, period_ns, burst_ns);
}

u64 sim_bandwidth_periods_to_wait(s64 balance_ns, u64 quota_ns)
{
	return bandwidth_periods_to_wait(balance_ns, quota_ns);
}

u64 sim_bandwidth_each_ns(s64 balance_ns, s32 nr_running)
{
	return bandwidth_each_ns(balance_ns, nr_running);
}

s64 sim_bandwidth_room(s64 balance_ns, s32 nr_active)
{
	return bandwidth_room(balance_ns, nr_active);
}

/* Single functions, for their tests (functions.rs). */
bool sim_is_low_power(s32 cpu)
{
	return cpu_ctx(cpu)->low_power;
}

void sim_publish_victim(s32 cpu, u64 deadline_ns)
{
	publish_victim(cpu_ctx(cpu), cpu, deadline_ns);
}

void sim_retract_victim(s32 cpu)
{
	retract_victim(cpu_ctx(cpu));
}

s32 sim_preempt_cpu(struct task_struct *p, s32 prev_cpu)
{
	return preempt_cpu(p, prev_cpu);
}

s32 sim_find_idle_by_kind(struct task_struct *p, s32 prev_cpu, bool whole_cores)
{
	return find_idle_by_kind(p, prev_cpu, word_bits((struct control_word){ .whole_cores = whole_cores }));
}

void sim_ours_left(s32 cpu, u64 now)
{
	ours_left(cpu_ctx(cpu), now);
}

void sim_ours_returned(s32 cpu, u64 now)
{
	ours_returned(cpu_ctx(cpu), now);
}

bool sim_busy_with_higher_class(s32 cpu, u64 now)
{
	return busy_with_higher_class(cpu_ctx(cpu), now);
}

u64 sim_higher_class_ns(s32 cpu, u64 now)
{
	return cpu_higher_class_ns(cpu_ctx(cpu), now);
}

void sim_hand_over(u32 slot, u64 generation)
{
	slot_flight(slot)->word = generation << 1 | USER_OWNED;
	mark_in_flight(slot, true);
	change_nr_in_flight(control_page(), 1);
}

bool sim_reclaim(u32 slot, u64 generation)
{
	return reclaim(control_page(), slot_flight(slot), slot, generation);
}

bool sim_is_marked_in_flight(u32 slot)
{
	u32 index = slot / 64;
	u64 *word = bpf_map_lookup_elem(&flight_bits, &index);

	return *word >> (slot & 63) & 1;
}

/* The longest that the policy lets a task wait. */
u64 sim_max_wait_ns(u64 nr_fair, u64 nr_cpus)
{
	return policy_max_wait_ns(nr_fair, nr_cpus);
}

/* Nobody looks for work in such a DSQ. */
bool sim_bpf_is_park(u64 dsq_id)
{
	return dsq_id >> 32 == DSQ_PARK;
}

/* Tasks wait there that run as soon as they wake. */
bool sim_bpf_is_prompt(u64 dsq_id)
{
	u32 kind = dsq_id >> 32;

	return kind == DSQ_PROMPT || kind == DSQ_CPU_PROMPT || kind == DSQ_INTERACTIVE;
}

struct sched_ext_ops *sim_bpf_ops(void)
{
	return &scherzo_ops;
}

void sim_bpf_sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next)
{
	scherzo_sched_switch(preempt, prev, next);
}

void sim_bpf_doorbell(void)
{
	scherzo_doorbell(NULL);
}

void sim_bpf_timer_fire(struct bpf_timer *timer)
{
	int key = sim_array_index(timer->map, timer);

	timer->callback(timer->map, &key, timer);
}

s64 sim_bpf_call_drain(s64 (*callback)(struct bpf_dynptr *dynptr, void *context), void *context, void *data, u32 size)
{
	struct bpf_dynptr dynptr = { data, size };

	return callback(&dynptr, context);
}

/* Offsets as the compiler sees them, for the test that compares abi.rs. */
u64 sim_layout[] = {
	sizeof(struct task_struct),
	offsetof(struct task_struct, nvcsw),
	offsetof(struct task_struct, cpus_ptr),
	offsetof(struct task_struct, scx),
	offsetof(struct task_struct, comm),
	offsetof(struct task_struct, sim_storage),
	sizeof(struct sched_ext_ops),
	offsetof(struct sched_ext_ops, exit),
};

u64 sim_deadline(u64 now, u64 mean_burst_ns, u32 weight)
{
	return policy_deadline(now, mean_burst_ns, weight, POLICY_USE_HEAVY);
}

/* Credit at the end of a burst that follows a sleep. */
s64 sim_credit_after(s64 credit_ns, u64 slept_ns, u64 ran_ns)
{
	u64 earned_ns = policy_credit_of_sleep(slept_ns, POLICY_WEIGHT_NORMAL);

	return policy_credit_ran(policy_credit_earned(credit_ns, earned_ns), ran_ns);
}

/* The level of use after running early on and now, while the clock has advanced so much; as enum policy_use_level. */
u32 sim_use_level(u64 early_ran_ns, u64 ran_ns, u64 passed_ns)
{
	struct policy_use use = {};

	policy_use_more(&use, early_ran_ns, 0, POLICY_USE_PERIOD_NS);
	policy_use_more(&use, ran_ns, passed_ns, 2 * POLICY_USE_PERIOD_NS);
	return policy_use_level(&use);
}

/* As percentages of all CPUs: what a group earns beside so many prompt tasks, and such that are owed, all of normal weight. */
u64 sim_group_earns_percent(u64 nr_own, u64 nr_prompt, u64 nr_owed)
{
	u64 normal = (u64)POLICY_WEIGHT_NORMAL << POLICY_WEIGHT_SHIFT;
	u64 beside = policy_weight_beside_group(nr_own * normal, nr_prompt * normal, nr_owed * normal);

	return policy_group_earns(POLICY_MSEC, 1, nr_own * normal, beside) * 100 / POLICY_MSEC;
}

/* After running for so long while all that were runnable weighed so much, for so many milliseconds at a time. */
static struct policy_use use_of_all(u64 ran_ns, s64 all_weight, u64 nr_cpus, u64 nr_ms)
{
	struct policy_use use = {};
	u64 passed_ns = 0, i;

	for (i = 0; i < nr_ms; i++)
		passed_ns += policy_system_clock_passes(POLICY_MSEC, all_weight, nr_cpus);
	policy_use_more(&use, ran_ns, passed_ns, POLICY_USE_PERIOD_NS);
	return use;
}

bool sim_is_light(u64 ran_ns, s64 all_weight, u64 nr_cpus, u64 nr_ms)
{
	struct policy_use use = use_of_all(ran_ns, all_weight, nr_cpus, nr_ms);

	return policy_is_light(&use);
}

bool sim_uses_little(u64 ran_ns, s64 all_weight, u64 nr_cpus, u64 nr_ms, u64 mean_burst_ns)
{
	struct policy_use use = use_of_all(ran_ns, all_weight, nr_cpus, nr_ms);

	return policy_uses_little(&use, mean_burst_ns);
}

u32 sim_light_level(u64 ran_ns, u64 passed_ns)
{
	struct policy_use use = { .ran_ns = ran_ns, .passed_ns = passed_ns };

	return policy_light_level(&use);
}

bool sim_is_one_of_light(u64 level)
{
	return policy_is_one_of_light(level);
}

s64 sim_lead_limit(s64 lead_ns, s64 most_ns, s64 least_ns)
{
	return policy_lead_limit(lead_ns, most_ns, least_ns);
}

s64 sim_lead_forgotten(s64 lead_ns, u64 run_ns)
{
	return policy_lead_forgotten(lead_ns, run_ns);
}

u32 sim_burst_kind(u64 mean_burst_ns)
{
	return policy_burst_kind(mean_burst_ns);
}

bool sim_little_is_much(u64 ran_ns, u64 passed_ns, u64 nr_cpus)
{
	return policy_little_is_much(ran_ns, passed_ns, nr_cpus);
}

u64 sim_deadline_of_use(u64 now, u32 use)
{
	return policy_deadline(now, 0, POLICY_WEIGHT_NORMAL, use);
}

/* `others` weigh as much as so many tasks of nice 0. */
bool sim_is_within_share(u64 ran_ns, u64 slept_ns, u32 weight, u64 others, u64 nr_cpus)
{
	u64 all_weight = (weight + others * POLICY_WEIGHT_NORMAL) << POLICY_WEIGHT_SHIFT;

	return policy_is_within_share(ran_ns, slept_ns, weight << POLICY_WEIGHT_SHIFT, all_weight, nr_cpus);
}

/* Weights are those of tasks in the root. */
u64 sim_ahead_in_place_of(u64 ahead_ns, u32 weight, u32 of_weight)
{
	return policy_ahead_in_place_of(ahead_ns, weight << POLICY_WEIGHT_SHIFT, of_weight << POLICY_WEIGHT_SHIFT);
}

bool sim_has_run_longer(u64 ran_ns, u32 running_weight, u64 last_burst_ns, u32 weight)
{
	struct cpu_ctx cpuc = { .burst_weight = running_weight };
	struct task_ctx tctx = { .last_burst_ns = last_burst_ns, .own_weight = weight };

	return has_run_longer(&cpuc, ran_ns, &tctx);
}
