/* SPDX-License-Identifier: GPL-2.0-only */
/* A scheduler's variables are in two sections of their own, so that they can be restored before each run. */
#ifndef SIM_VARIABLES_H
#define SIM_VARIABLES_H

#include <stdlib.h>
#include <string.h>

extern char __start_sim_bss[], __stop_sim_bss[], __start_sim_data[], __stop_sim_data[];

static char *initial_data;

/* The first call keeps a copy of the initial values. */
static void restore_variables(void)
{
	size_t size = __stop_sim_data - __start_sim_data;

	if (!initial_data) {
		initial_data = malloc(size);
		if (!initial_data)
			abort();
		memcpy(initial_data, __start_sim_data, size);
	}
	memcpy(__start_sim_data, initial_data, size);
	memset(__start_sim_bss, 0, __stop_sim_bss - __start_sim_bss);
}

#endif /* SIM_VARIABLES_H */
