// SPDX-License-Identifier: GPL-2.0-only
/*
 * What clang's thread sanitizer calls before each access of the scheduler's to memory, and in place of each atomic. While nobody
 * explores interleavings these do what the plain instruction would.
 */
#include <scx/common.bpf.h>

/* Set by Rust. */
bool sim_exploring;

extern void sim_access(void *address, u32 size, bool writes, void *site);
extern void sim_atomic(void *address, u32 size, void *site);

#define SITE __builtin_return_address(0)

void __tsan_init(void)
{
}

void __tsan_func_entry(void *site)
{
}

void __tsan_func_exit(void)
{
}

#define ACCESS(size)                                                   \
	void __tsan_read##size(void *address)                          \
	{                                                              \
		if (sim_exploring)                                     \
			sim_access(address, size, false, SITE);        \
	}                                                              \
	void __tsan_unaligned_read##size(void *address)                \
	{                                                              \
		if (sim_exploring)                                     \
			sim_access(address, size, false, SITE);        \
	}                                                              \
	void __tsan_write##size(void *address)                         \
	{                                                              \
		if (sim_exploring)                                     \
			sim_access(address, size, true, SITE);         \
	}                                                              \
	void __tsan_unaligned_write##size(void *address)               \
	{                                                              \
		if (sim_exploring)                                     \
			sim_access(address, size, true, SITE);         \
	}

ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

#define ATOMIC(bits, name, after)                                                      \
	u##bits __tsan_atomic##bits##_##name(u##bits *address, u##bits value, int order) \
	{                                                                              \
		u##bits before;                                                        \
                                                                                       \
		if (sim_exploring)                                                     \
			sim_atomic(address, bits / 8, SITE);                           \
		before = *address;                                                     \
		*address = after;                                                      \
		return before;                                                         \
	}

#define ATOMICS(bits)                                                                                       \
	ATOMIC(bits, fetch_add, before + value)                                                             \
	ATOMIC(bits, fetch_sub, before - value)                                                             \
	ATOMIC(bits, fetch_and, before & value)                                                             \
	ATOMIC(bits, fetch_or, before | value)                                                              \
	ATOMIC(bits, exchange, value)                                                                       \
	u##bits __tsan_atomic##bits##_compare_exchange_val(u##bits *address, u##bits expected, u##bits value, \
							   int order, int failure_order)                   \
	{                                                                                                   \
		u##bits before;                                                                             \
                                                                                                            \
		if (sim_exploring)                                                                          \
			sim_atomic(address, bits / 8, SITE);                                                \
		before = *address;                                                                          \
		if (before == expected)                                                                     \
			*address = value;                                                                   \
		return before;                                                                              \
	}

ATOMICS(8)
ATOMICS(32)
ATOMICS(64)

/* Newer compilers call these for memcpy() and memset(). */
void *__tsan_memcpy(void *to, const void *from, u64 size)
{
	return __builtin_memcpy(to, from, size);
}

void *__tsan_memset(void *to, int value, u64 size)
{
	return __builtin_memset(to, value, size);
}
