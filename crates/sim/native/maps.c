// SPDX-License-Identifier: GPL-2.0-only
/* Memory of arrays, stacks and task storage. Everything is made during a run and forgotten with it. */
#include <scx/common.bpf.h>

#include <stdlib.h>
#include <string.h>

struct sim_map {
	struct sim_map *next;
	u64 value_size;
	u64 nr;
	u64 nr_pushed;
	char data[] __attribute__((aligned(64)));
};

struct sim_storage {
	struct sim_storage *next;
	struct sim_storage *next_of_task;
	void *map;
	char data[] __attribute__((aligned(64)));
};

static struct sim_map *maps;
static struct sim_storage *storages;

static void *zeroed(u64 size)
{
	void *memory = aligned_alloc(64, (size + 63) & ~63ULL);

	if (!memory)
		abort();
	return memset(memory, 0, (size + 63) & ~63ULL);
}

void sim_maps_reset(void)
{
	while (maps) {
		struct sim_map *next = maps->next;

		free(maps);
		maps = next;
	}
	while (storages) {
		struct sim_storage *next = storages->next;

		free(storages);
		storages = next;
	}
}

/* The first member of the map's variable points to its memory. */
void *sim_map_resize(void *map, u64 value_size, u64 nr)
{
	struct sim_map *made = zeroed(sizeof(*made) + value_size * nr);

	made->value_size = value_size;
	made->nr = nr;
	made->next = maps;
	maps = made;
	*(struct sim_map **)map = made;
	return made;
}

static struct sim_map *memory_of(void *map, u64 value_size, u64 max_entries)
{
	struct sim_map *memory = *(struct sim_map **)map;

	return memory ?: sim_map_resize(map, value_size, max_entries);
}

void *sim_array_lookup(void *map, u64 value_size, u64 max_entries, const void *key)
{
	struct sim_map *memory = memory_of(map, value_size, max_entries);
	u32 index = *(u32 *)key;

	return index < memory->nr ? memory->data + index * memory->value_size : NULL;
}

/* Each CPU has entries of its own. */
void *sim_percpu_array_lookup(void *map, u64 value_size, u64 max_entries, const void *key)
{
	u32 index = *(u32 *)key;
	u32 of_this_cpu = bpf_get_smp_processor_id() * max_entries + index;

	return index < max_entries ? sim_array_lookup(map, value_size, SIM_MAX_CPUS * max_entries, &of_this_cpu) : NULL;
}

/* Which entry a pointer is part of. */
u32 sim_array_index(void *map, void *value)
{
	struct sim_map *memory = *(struct sim_map **)map;

	return ((char *)value - memory->data) / memory->value_size;
}

s64 sim_stack_push(void *map, u64 value_size, u64 max_entries, const void *value)
{
	struct sim_map *memory = memory_of(map, value_size, max_entries);

	sim_change_map();
	if (memory->nr_pushed == memory->nr)
		return -E2BIG;
	memcpy(memory->data + memory->nr_pushed++ * value_size, value, value_size);
	return 0;
}

s64 sim_stack_pop(void *map, u64 value_size, u64 max_entries, void *value)
{
	struct sim_map *memory = memory_of(map, value_size, max_entries);

	sim_change_map();
	if (!memory->nr_pushed)
		return -ENOENT;
	memcpy(value, memory->data + --memory->nr_pushed * value_size, value_size);
	return 0;
}

/* A task has the storage of its maps in a list. */
void *sim_task_storage(void *map, struct task_struct *p, u64 value_size, u64 flags)
{
	struct sim_storage *storage;

	for (storage = p->sim_storage; storage; storage = storage->next_of_task) {
		if (storage->map == map)
			return storage->data;
	}
	if (!(flags & BPF_LOCAL_STORAGE_GET_F_CREATE))
		return NULL;
	storage = zeroed(sizeof(*storage) + value_size);
	storage->next = storages;
	storage->next_of_task = p->sim_storage;
	storage->map = map;
	storages = storage;
	p->sim_storage = storage;
	return storage->data;
}
