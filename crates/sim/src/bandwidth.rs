//! Tests of the arithmetic of limits: the very lines that the scheduler uses (`bandwidth.h`).

use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[allow(unsafe_code)]
mod native {
    // SAFETY: the functions of glue.c have these signatures, and compute with their arguments alone.
    unsafe extern "C" {
        pub(super) safe fn sim_bandwidth_periods(began_ns: u64, now: u64, period_ns: u64) -> u64;
        pub(super) safe fn sim_bandwidth_refill(balance: i64, nr: u64, quota: u64, period: u64, burst: u64) -> i64;
        pub(super) safe fn sim_bandwidth_periods_to_wait(balance_ns: i64, quota_ns: u64) -> u64;
        pub(super) safe fn sim_bandwidth_each_ns(balance_ns: i64, nr_running: i32) -> u64;
        pub(super) safe fn sim_bandwidth_room(balance_ns: i64, nr_active: i32) -> i64;
    }
}

use native::{
    sim_bandwidth_each_ns, sim_bandwidth_periods, sim_bandwidth_periods_to_wait, sim_bandwidth_refill,
    sim_bandwidth_room,
};

#[test]
fn a_period_is_over_when_the_next_begins() {
    let periods = |now| sim_bandwidth_periods(1000, now, 100);
    assert_eq!([900, 1000, 1099, 1100, 1350].map(periods), [0, 0, 0, 1, 3]);
    assert_eq!(sim_bandwidth_periods(1000, 2000, 0), 0);
}

#[test]
fn the_balance_is_kept_up_to_the_burst_and_debts_are_paid_first() {
    let refill = |balance_ms: i64, nr, burst_ms| {
        sim_bandwidth_refill(balance_ms * MS as i64, nr, 10 * MS, 100 * MS, burst_ms * MS) / MS as i64
    };
    assert_eq!([refill(0, 1, 0), refill(7, 1, 0), refill(7, 1, 5), refill(0, 3, 15)], [10, 10, 15, 25]);
    assert_eq!([refill(-4, 1, 0), refill(-25, 2, 0)], [6, -5]);
    // After 10 s a debt is forgotten.
    assert_eq!(refill(-5_000, 1, 0), -990);
}

#[test]
fn a_debt_is_waited_for() {
    let wait = |balance_ns| sim_bandwidth_periods_to_wait(balance_ns, 10);
    assert_eq!([1, 0, -1, -9, -10, -11].map(wait), [0, 1, 1, 1, 2, 2]);
}

#[test]
fn what_is_left_is_divided_among_those_that_run() {
    let each = |balance_ms: i64, nr| sim_bandwidth_each_ns(balance_ms * MS as i64, nr);
    assert_eq!(
        [each(8, 4), each(8, 0), each(8, -1), each(-8, 1), each(1, 64)],
        [2 * MS, 8 * MS, 8 * MS, MS / 4, MS / 4]
    );
    let room = |balance_us: i64, nr| sim_bandwidth_room(balance_us * 1000, nr);
    assert_eq!([room(500, 0), room(500, 1), room(4_500, 1), room(0, 0), room(-9, 3)], [1, 0, 3, 0, -3]);
}

proptest! {
    #[test]
    fn the_balance_stays_within_its_bounds(
        balance in -(1i64 << 44)..1i64 << 44,
        nr in 0u64..1 << 40,
        quota in 1_000_000u64..1 << 44,
        period in 1_000_000u64..=1_000_000_000,
        burst in 0u64..1 << 44,
    ) {
        let after = sim_bandwidth_refill(balance, nr, quota, period, burst);
        prop_assert!(after <= (quota + burst) as i64);
        prop_assert!(after >= balance.min((quota + burst) as i64), "{after}");
        // The debt is over after 10 s at the latest.
        let wait = sim_bandwidth_periods_to_wait(after, quota);
        prop_assert!(wait * period <= 10_000 * MS + period, "{wait} periods");
        if wait > 0 {
            prop_assert!(sim_bandwidth_refill(after, wait, quota, period, burst) > 0);
            prop_assert!(wait == 1 || sim_bandwidth_refill(after, wait - 1, quota, period, burst) <= 0);
        }
    }
}
