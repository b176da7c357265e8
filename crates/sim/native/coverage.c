// SPDX-License-Identifier: GPL-2.0-only
/* Which blocks of the scheduler's code have run: clang sets flags in one table, and names their places in another. */
#include <scx/common.bpf.h>

struct sim_block {
	u64 address;
	u64 is_function;
};

static bool *flags;
static struct sim_block *blocks;
static u64 nr_blocks;

/* Called before main(), since one file only is compiled so. */
void __sanitizer_cov_bool_flag_init(bool *begin, bool *end)
{
	flags = begin;
	nr_blocks = end - begin;
}

void __sanitizer_cov_pcs_init(struct sim_block *begin, struct sim_block *end)
{
	blocks = begin;
}

u64 sim_coverage(bool **flags_out, struct sim_block **blocks_out)
{
	*flags_out = flags;
	*blocks_out = blocks;
	return nr_blocks;
}
