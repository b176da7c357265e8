/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The smallest scheduler that the kernel accepts: a name, and the kernel's own behaviour for everything else. It stands
 * for somebody else's scheduler in the cases. `struct sched_ext_ops` is reduced to what is set; libbpf finds the rest by
 * name in the kernel's own type information.
 */
#define SEC(name) __attribute__((section(name), used))

struct sched_ext_ops {
	char name[128];
};

char _license[] SEC("license") = "GPL";

SEC(".struct_ops.link")
struct sched_ext_ops foreign = {
	.name = "foreign",
};
