// SPDX-License-Identifier: GPL-2.0-only
/*
 * Glue of a scheduler that is compiled and loaded at run time (loaded.rs). SIM_SOURCE is its file, SIM_SETTINGS assigns values to
 * its variables before each run. All that is known of it is that it uses SCX_OPS_DEFINE() once.
 *
 * The functions that it calls are in the program that loads it. Macros on the compiler's command line make a pointer of each, which
 * that program sets.
 */
#include <scx/common.bpf.h>

#include "variables.h"

struct sched_ext_ops *sim_ops;

#undef SCX_OPS_DEFINE
#define SCX_OPS_DEFINE(name, ...)                    \
	struct sched_ext_ops name = { __VA_ARGS__ }; \
	struct sched_ext_ops *sim_ops = &name

#undef BPF_PROG
#define BPF_PROG(name, ...) \
	_Pragma("GCC error \"the simulator calls no programs but those of struct sched_ext_ops\"") name(__VA_ARGS__)

#pragma clang section bss = "sim_bss" data = "sim_data"
/* Both sections exist even if the scheduler has no such variables: the linker defines their bounds only then. */
__attribute__((used)) static u32 sim_zero;
__attribute__((used)) static u32 sim_one = 1;

#include SIM_SOURCE
#pragma clang section bss = "" data = ""

void sim_maps_reset(void);

/* Before each run. NULL if there is no scheduler in the file. */
struct sched_ext_ops *sim_begin(void)
{
	restore_variables();
	sim_maps_reset();
	SIM_SETTINGS
	return sim_ops;
}
