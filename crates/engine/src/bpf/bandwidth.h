/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bandwidth.h: the arithmetic of bandwidth limits. No kernel function is called here, so that tests can compile the same lines.
 *
 * A limited group has a balance of CPU time. Running takes from it, the beginning of each period adds the quota. What is not
 * used by then is kept up to the burst; what was used beyond it is a debt, which later periods pay first.
 */
#ifndef SCHERZO_BANDWIDTH_H
#define SCHERZO_BANDWIDTH_H

#define BANDWIDTH_MSEC 1000000ULL

/* The longest time that a debt keeps a group from running. */
#define BANDWIDTH_DEBT_NS (10000 * BANDWIDTH_MSEC)
/* The shortest time for which a task runs once it does. */
#define BANDWIDTH_RUN_MIN_NS (BANDWIDTH_MSEC / 4)
/* One more task of a parked group is let go for each of these in its balance. */
#define BANDWIDTH_TASK_NS BANDWIDTH_MSEC

/* Periods that are over. */
static inline u64 bandwidth_periods(u64 began_ns, u64 now, u64 period_ns)
{
	s64 passed_ns = now - began_ns;

	return passed_ns > 0 && period_ns ? (u64)passed_ns / period_ns : 0;
}

/* The balance after so many periods. */
static inline s64 bandwidth_refill(s64 balance_ns, u64 nr_periods, u64 quota_ns, u64 period_ns, u64 burst_ns)
{
	s64 most_ns = quota_ns + burst_ns;
	s64 least_ns = -(s64)(BANDWIDTH_DEBT_NS / (period_ns ? period_ns : 1) * quota_ns);

	if (balance_ns < least_ns)
		balance_ns = least_ns;
	if (balance_ns >= most_ns || !quota_ns)
		return most_ns;
	if (nr_periods > (u64)(most_ns - balance_ns) / quota_ns)
		return most_ns;
	return balance_ns + nr_periods * quota_ns;
}

/* Beginnings of periods until something is left to run. */
static inline u64 bandwidth_periods_to_wait(s64 balance_ns, u64 quota_ns)
{
	return balance_ns > 0 || !quota_ns ? 0 : (u64)-balance_ns / quota_ns + 1;
}

/* For how long each of the tasks that run may go on, if all do. */
static inline u64 bandwidth_each_ns(s64 balance_ns, s32 nr_running)
{
	u64 each_ns = balance_ns > 0 ? (u64)balance_ns / (nr_running > 0 ? nr_running : 1) : 0;

	return each_ns > BANDWIDTH_RUN_MIN_NS ? each_ns : BANDWIDTH_RUN_MIN_NS;
}

/* How many tasks more can be let go, beside those that run or were let go before. */
static inline s64 bandwidth_room(s64 balance_ns, s32 nr_active)
{
	u64 nr = balance_ns > 0 ? (u64)balance_ns / BANDWIDTH_TASK_NS : 0;

	if (balance_ns > 0 && !nr)
		nr = 1;
	return (s64)nr - (nr_active > 0 ? nr_active : 0);
}

#endif /* SCHERZO_BANDWIDTH_H */
