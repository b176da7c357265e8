/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BPF helpers and libbpf's macros.
 *
 * A map is a variable whose members are pointers that carry numbers in their types. The first of them, unused otherwise,
 * points to the map's memory here; it is made at the first use, and forgotten when a run begins.
 */
#ifndef SIM_HELPERS_H
#define SIM_HELPERS_H

#define __uint(name, val) SIM_UINT_##name(val)
#define __type(name, val) typeof(val) *name

#define SIM_UINT_type(val) int(*type)[val]
#define SIM_UINT_map_flags(val) int(*map_flags)[val]
#define SIM_UINT_max_entries(val) int(*max_entries)[val]
#define SIM_UINT_key_size(val) int(*key_size)[val]
/* A map may name the type of its values or their size: either way its member `value` points to something of that size. */
#define SIM_UINT_value_size(val) char(*value)[val]

#define SIM_NUMBER(map, name) (sizeof(*(map)->name) / sizeof(int))

void *sim_array_lookup(void *map, u64 value_size, u64 max_entries, const void *key);
void *sim_percpu_array_lookup(void *map, u64 value_size, u64 max_entries, const void *key);
s64 sim_stack_push(void *map, u64 value_size, u64 max_entries, const void *value);
s64 sim_stack_pop(void *map, u64 value_size, u64 max_entries, void *value);
void *sim_task_storage(void *map, struct task_struct *p, u64 value_size, u64 flags);
u32 sim_array_index(void *map, void *value);
s64 sim_timer_start(struct bpf_timer *timer, u64 after_ns);

#define bpf_map_lookup_elem(map, key) \
	(SIM_NUMBER(map, type) == BPF_MAP_TYPE_PERCPU_ARRAY ? sim_percpu_array_lookup : sim_array_lookup)( \
		map, sizeof(*(map)->value), SIM_NUMBER(map, max_entries), key)
#define bpf_map_push_elem(map, element, flags) \
	sim_stack_push(map, sizeof(*(map)->value), SIM_NUMBER(map, max_entries), element)
#define bpf_map_pop_elem(map, element) \
	sim_stack_pop(map, sizeof(*(map)->value), SIM_NUMBER(map, max_entries), element)
#define bpf_task_storage_get(map, task, init, flags) \
	((typeof((map)->value))sim_task_storage(map, task, sizeof(*(map)->value), flags))

/* These rings connect this project's scheduler with its engine. Another scheduler has no user space here. */
#ifndef SIM_LOADED
void *sim_ringbuf_reserve(u64 capacity, u64 size);
void sim_ringbuf_submit(void *record, u64 flags);
void sim_ringbuf_discard(void *record, u64 flags);
u64 sim_ringbuf_query(u64 capacity, u64 what);
s64 sim_user_ringbuf_drain(s64 (*callback)(void *dynptr, void *context), void *context);

#define bpf_ringbuf_reserve(map, size, flags) sim_ringbuf_reserve(SIM_NUMBER(map, max_entries), size)
#define bpf_ringbuf_submit(record, flags) sim_ringbuf_submit(record, flags)
#define bpf_ringbuf_discard(record, flags) sim_ringbuf_discard(record, flags)
#define bpf_ringbuf_query(map, what) sim_ringbuf_query(SIM_NUMBER(map, max_entries), what)
#define bpf_user_ringbuf_drain(map, callback, context, flags) sim_user_ringbuf_drain((void *)(callback), context)
#endif

static inline void *bpf_dynptr_data(struct bpf_dynptr *dynptr, u64 offset, u64 size)
{
	return offset + size <= dynptr->size ? (char *)dynptr->data + offset : NULL;
}

static inline s64 bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags)
{
	timer->map = map;
	return 0;
}

static inline s64 bpf_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	timer->callback = callback;
	return 0;
}

#define bpf_timer_start(timer, after_ns, flags) sim_timer_start(timer, after_ns)

static inline s64 bpf_loop(u32 nr, int (*callback)(u32 index, void *context), void *context, u64 flags)
{
	u32 index;

	for (index = 0; index < nr; index++) {
		if (callback(index, context))
			return index + 1;
	}
	return nr;
}

/* The variable keeps its last value at the end, as libbpf's does. */
#define bpf_for(i, start, end) \
	for (s64 sim_i = (start), sim_end = (end); sim_i < sim_end && ((i) = sim_i, true); sim_i++)

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, val) (*(volatile typeof(x) *)&(x) = (val))
#define barrier_var(var) asm volatile("" : "+r"(var))
#define bpf_core_cast(ptr, type) ((type *)(ptr))
#define bpf_rcu_read_lock() ((void)0)
#define bpf_rcu_read_unlock() ((void)0)

#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define BPF_STRUCT_OPS(name, ...) name(__VA_ARGS__)
#define BPF_STRUCT_OPS_SLEEPABLE(name, ...) name(__VA_ARGS__)
#define SCX_OPS_DEFINE(name, ...) struct sched_ext_ops name = { __VA_ARGS__ }

#define UEI_DEFINE(name) struct scx_exit_info name
#define UEI_RECORD(name, info) ((name) = *(info))

static inline s64 time_delta(u64 after, u64 before)
{
	s64 delta = after - before;

	return delta > 0 ? delta : 0;
}

static inline bool time_after(u64 a, u64 b)
{
	return (s64)(b - a) < 0;
}

static inline bool time_before(u64 a, u64 b)
{
	return time_after(b, a);
}

static inline u32 ctzll(u64 value)
{
	return __builtin_ctzll(value);
}

/* Counts from one, as scx's does. */
static inline u32 log2_u64(u64 value)
{
	return value ? 64 - __builtin_clzll(value) : 0;
}

#endif /* SIM_HELPERS_H */
