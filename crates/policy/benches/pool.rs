//! Insert plus pop with 10, 1,000 and 100,000 tasks waiting, beside a B-tree with an index by pid (the structure
//! scx_rustland keeps its tasks in).

use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use scherzo_policy::SlotId;
use scherzo_policy::pool::Pool;

const NR_WAITING: [u32; 3] = [10, 1_000, 100_000];
/// Keys lie within ± 50 ms of the time of arrival.
const SPREAD_NS: u64 = 100_000_000;

/// Ever later times with keys scattered around them; every structure sees the same ones.
struct Keys {
    now_ns: u64,
    step_ns: u64,
    state: u64,
}

impl Keys {
    /// Such that the time a task waits is about the spread of the keys.
    fn new(nr_waiting: u32) -> Self {
        Self { now_ns: 0, step_ns: SPREAD_NS / u64::from(nr_waiting), state: 0x2545_f491_4f6c_dd1d }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.now_ns += self.step_ns;
        self.now_ns + self.state % SPREAD_NS
    }
}

/// What scx_rustland does: ordered set, and a map by pid so that a second enqueue finds the first.
#[derive(Default)]
struct Tree {
    order: BTreeSet<(u64, u32)>,
    by_pid: HashMap<u32, u64>,
}

impl Tree {
    fn insert(&mut self, pid: u32, key: u64) {
        if let Some(old) = self.by_pid.insert(pid, key) {
            self.order.remove(&(old, pid));
        }
        self.order.insert((key, pid));
    }

    fn pop(&mut self) -> Option<u32> {
        let (_, pid) = self.order.pop_first()?;
        self.by_pid.remove(&pid);
        Some(pid)
    }
}

fn insert_and_pop(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert_and_pop");
    for nr_waiting in NR_WAITING {
        group.bench_function(BenchmarkId::new("pool", nr_waiting), |bencher| {
            let mut keys = Keys::new(nr_waiting);
            let mut pool = Pool::new(nr_waiting as usize + 1, nr_waiting + 1);
            for slot in 0..nr_waiting {
                pool.insert(SlotId(slot), keys.next()).expect("the pool has room");
            }
            let mut free = SlotId(nr_waiting);
            bencher.iter(|| {
                let inserted = pool.insert(free, black_box(keys.next()));
                free = pool.pop().expect("tasks wait");
                inserted
            });
        });
        group.bench_function(BenchmarkId::new("btree", nr_waiting), |bencher| {
            let mut keys = Keys::new(nr_waiting);
            let mut tree = Tree::default();
            for pid in 0..nr_waiting {
                tree.insert(pid, keys.next());
            }
            let mut free = nr_waiting;
            bencher.iter(|| {
                tree.insert(free, black_box(keys.next()));
                free = tree.pop().expect("tasks wait");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, insert_and_pop);
criterion_main!(benches);
