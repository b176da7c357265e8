// SPDX-License-Identifier: GPL-2.0-only
/* scx_bpf_error(): C formats the message, since Rust cannot read variable arguments. */
#include <scx/common.bpf.h>

#include <stdarg.h>
#include <stdio.h>

void sim_report_error(char *text);

void sim_error(char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sim_report_error(text);
}
