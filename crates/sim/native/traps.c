// SPDX-License-Identifier: GPL-2.0-only
/*
 * What C does not define, and what the kernel's BPF hides: it divides by zero without a word, shifts by as much as fits, and reads
 * zeros behind NULL. clang calls these functions before that happens here.
 */
#include <scx/common.bpf.h>

/* The beginning of whatever clang passes. */
struct sim_place {
	char *file;
	u32 line;
	u32 column;
};

__attribute__((noreturn)) void sim_trap(char *what, char *file, u32 line);

#define SIM_TRAP(handler, what)                     \
	void handler(struct sim_place *place)       \
	{                                           \
		sim_trap(what, place->file, place->line); \
	}

SIM_TRAP(__ubsan_handle_divrem_overflow_abort, "a division by zero")
SIM_TRAP(__ubsan_handle_shift_out_of_bounds_abort, "a shift by more than there are bits")
SIM_TRAP(__ubsan_handle_type_mismatch_v1_abort, "an access through NULL")
SIM_TRAP(__ubsan_handle_out_of_bounds_abort, "an index out of bounds")
