// SPDX-License-Identifier: GPL-2.0-only
/* The functions of policy.h that user space calls, as symbols. */
#include "policy.h"

struct policy_turn scherzo_policy_turn_of(const struct policy_account *task, u64 slice_ns, bool by_arrival)
{
	return policy_turn_of(task, slice_ns, by_arrival);
}
