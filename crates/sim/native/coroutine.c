// SPDX-License-Identifier: GPL-2.0-only
/* Calls that may stop in the middle and go on later, each on a stack of its own: what runs on the CPUs at the same time. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#define STACK_BYTES (512 * 1024)

struct sim_coroutine {
	ucontext_t own, caller;
	void (*body)(void *argument);
	void *argument;
	bool runs;
	char *stack;
};

struct sim_coroutine *sim_coroutine_new(void)
{
	struct sim_coroutine *made = calloc(1, sizeof(*made));

	if (!made || !(made->stack = malloc(STACK_BYTES)))
		abort();
	return made;
}

void sim_coroutine_free(struct sim_coroutine *coroutine)
{
	free(coroutine->stack);
	free(coroutine);
}

/* makecontext() passes numbers only. */
static void begin(unsigned int low, unsigned int high)
{
	struct sim_coroutine *coroutine = (void *)((uintptr_t)high << 32 | low);

	coroutine->body(coroutine->argument);
	coroutine->runs = false;
}

void sim_coroutine_begin(struct sim_coroutine *coroutine, void (*body)(void *argument), void *argument)
{
	uintptr_t address = (uintptr_t)coroutine;

	coroutine->body = body;
	coroutine->argument = argument;
	coroutine->runs = true;
	getcontext(&coroutine->own);
	coroutine->own.uc_stack.ss_sp = coroutine->stack;
	coroutine->own.uc_stack.ss_size = STACK_BYTES;
	coroutine->own.uc_link = &coroutine->caller;
	makecontext(&coroutine->own, (void (*)(void))begin, 2, (unsigned int)address, (unsigned int)(address >> 32));
}

/* Goes on with it until it stops; false once it is over. */
bool sim_coroutine_resume(struct sim_coroutine *coroutine)
{
	swapcontext(&coroutine->caller, &coroutine->own);
	return coroutine->runs;
}

/* Called from within: back to where it was resumed. */
void sim_coroutine_stop(struct sim_coroutine *coroutine)
{
	swapcontext(&coroutine->own, &coroutine->caller);
}

bool sim_coroutine_has(const struct sim_coroutine *coroutine, const void *address)
{
	return (const char *)address >= coroutine->stack && (const char *)address < coroutine->stack + STACK_BYTES;
}
