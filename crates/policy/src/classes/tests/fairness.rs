//! One CPU and tasks that never sleep.

use super::*;

/// CPU time in ms that hogs of these weights get within 20 s.
fn shares_ms<const N: usize>(weights: [u32; N]) -> [u64; N] {
    let mut policy = policy();
    let mut ran_ns = [0; N];
    let mut now_ns = u64::MAX - 500 * MS;
    let load = Load { nr_running: 1, nr_waiting: N as u32 - 1 };
    policy.set_nr_cpus(1);
    let enqueue = |policy: &mut Classes, hog: usize, now_ns: u64, ran_ns: u64| {
        let hog_task = queued(hog as u32, now_ns);
        let run = QueuedTask { weight: weights[hog], sum_exec_ns: ran_ns, burst_ns: ran_ns, load, ..hog_task };
        policy.enqueue(&run).unwrap();
    };
    for hog in 0..N {
        enqueue(&mut policy, hog, now_ns, 0);
    }
    let mut passed_ns = 0;
    while passed_ns < 20_000 * MS {
        let dispatched = policy.pop().unwrap();
        let hog = dispatched.slot.index();
        ran_ns[hog] += dispatched.slice_ns;
        passed_ns += dispatched.slice_ns;
        now_ns = now_ns.wrapping_add(dispatched.slice_ns);
        enqueue(&mut policy, hog, now_ns, ran_ns[hog]);
    }
    ran_ns.map(|ns| ns / MS)
}

#[test]
fn equal_weights_get_equal_shares() {
    for share_ms in shares_ms([100; 5]) {
        assert!((3_980..=4_020).contains(&share_ms), "{share_ms}");
    }
}

#[test]
fn shares_follow_the_weights() {
    let [light, heavy] = shares_ms([100, 300]);
    assert!((14_900..=15_100).contains(&heavy), "{light} {heavy}");
    let [half, one, two] = shares_ms([50, 100, 200]);
    assert!((1_980..=2_020).contains(&(one * 1000 / half)), "{half} {one} {two}");
    assert!((1_980..=2_020).contains(&(two * 1000 / one)), "{half} {one} {two}");
}

#[test]
fn the_lightest_gets_what_the_starvation_bound_gives() {
    let [lightest, normal] = shares_ms([1, 100]);
    assert!((1_000..=4_000).contains(&lightest), "{lightest} {normal}");
}
