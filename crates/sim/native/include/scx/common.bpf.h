/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stands in for scx/common.bpf.h and vmlinux.h where the scheduler is compiled for the simulator.
 *
 * It declares the part of the kernel that BPF sees: types with the fields that are used, helpers, kfuncs. What they do is
 * in Rust (kfuncs.rs, maps.rs); only what needs the types of the caller is a macro here.
 */
#ifndef SIM_COMMON_BPF_H
#define SIM_COMMON_BPF_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* scherzo_wire.h leaves the integer types to whoever has this. */
#define __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

/*
 * The loader writes `const volatile` variables before it loads, here before each run. Without the qualifier the compiler
 * puts them where they can be written, and where a run begins by restoring them.
 */
#define const

#define SEC(name)
#undef __weak
#undef __noinline
#undef __always_inline
#define __weak __attribute__((weak))
#define __noinline __attribute__((noinline))
#define __always_inline inline __attribute__((always_inline))
#define __arg_trusted

#include "types.h"
#include "constants.h"
#include "helpers.h"
#include "kfuncs.h"

#endif /* SIM_COMMON_BPF_H */
