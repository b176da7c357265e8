//! What each task should get: the hierarchical, weighted, water-filled division of the CPUs that each task may use.
//!
//! At every level capacity is divided by weight; who can use less than its part gets what it can use, and the rest is
//! divided anew. A task can use its demand and at most one CPU, a group the sum of its children and at most its limit.
//! Where the tasks pinned to a CPU come to more than that CPU, it is divided among them by what they are entitled to, and
//! the others divide the rest of the machine.
//!
//! This is a reference for tests, so it has nothing in common with the scheduler's own arithmetic.

/// The kernel's table of weights, from nice -20 to 19.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// Of a task that is SCHED_IDLE and of a group with `cpu.idle`.
pub(crate) const IDLE_WEIGHT: f64 = 3.0;
/// More than a CPU by less than this is rounding.
const EPSILON: f64 = 1e-9;

/// The weight of a nice level.
pub(crate) fn nice_weight(nice: i32) -> f64 {
    f64::from(WEIGHTS[usize::try_from(nice + 20).map_or(0, |index| index.min(39))])
}

/// One that wants CPU time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    pub(crate) weight: f64,
    /// CPUs, at most 1.
    pub(crate) demand: f64,
    /// The only CPU that it may use.
    pub(crate) pin: Option<usize>,
}

/// What competes at one level of the hierarchy.
#[derive(Clone, Debug)]
pub(crate) enum ShareNode {
    /// Index of a task.
    Task(usize),
    Group {
        weight: f64,
        /// CPUs; infinite if there is none.
        limit: f64,
        children: Vec<ShareNode>,
    },
}

/// The part that each task should get, in CPUs.
pub(crate) fn shares(nr_cpus: usize, root: &[ShareNode], tasks: &[Claimant]) -> Vec<f64> {
    let mut solver = Solver { tasks, caps: tasks.iter().map(|task| task.demand.min(1.0)).collect() };
    loop {
        let mut parts = vec![TaskShare::default(); tasks.len()];
        solver.assign(root, nr_cpus as f64, &mut parts);
        if !solver.cut_overfull_cpus(nr_cpus, &parts) {
            return parts.iter().map(|part| part.share).collect();
        }
    }
}

struct Solver<'a> {
    tasks: &'a [Claimant],
    /// The most that each can use, as far as is known.
    caps: Vec<f64>,
}

/// What a task gets.
#[derive(Clone, Copy, Debug, Default)]
struct TaskShare {
    share: f64,
    /// What it would get if it could use it.
    entitled: f64,
}

/// What competes for capacity.
#[derive(Clone, Copy, Debug)]
struct Claim {
    weight: f64,
    cap: f64,
}

impl Solver<'_> {
    fn claim(&self, node: &ShareNode) -> Claim {
        match node {
            ShareNode::Task(index) => Claim { weight: self.tasks[*index].weight, cap: self.caps[*index] },
            ShareNode::Group { weight, limit, children } => {
                let wanted: f64 = children.iter().map(|child| self.claim(child).cap).sum();
                Claim { weight: *weight, cap: wanted.min(*limit) }
            }
        }
    }

    fn assign(&self, nodes: &[ShareNode], capacity: f64, parts: &mut [TaskShare]) {
        let claims: Vec<_> = nodes.iter().map(|node| self.claim(node)).collect();
        let rate = rate(capacity, &claims);
        for (node, claim) in nodes.iter().zip(&claims) {
            let entitled = claim.weight * rate;
            let share = entitled.min(claim.cap);
            match node {
                ShareNode::Task(index) => parts[*index] = TaskShare { share, entitled },
                ShareNode::Group { children, .. } => self.assign(children, share, parts),
            }
        }
    }

    /// Lowers the caps of tasks that are pinned to a CPU which they would overfill; whether there were any.
    fn cut_overfull_cpus(&mut self, nr_cpus: usize, parts: &[TaskShare]) -> bool {
        let mut any = false;
        for cpu in 0..nr_cpus {
            let here: Vec<_> = (0..parts.len()).filter(|index| self.tasks[*index].pin == Some(cpu)).collect();
            let wanted: f64 = here.iter().map(|index| parts[*index].share).sum();
            if wanted > 1.0 + EPSILON {
                let claim = |index: &usize| Claim { weight: parts[*index].entitled, cap: self.caps[*index] };
                let claims: Vec<_> = here.iter().map(claim).collect();
                let rate = rate(1.0, &claims);
                for (index, claim) in here.iter().zip(&claims) {
                    self.caps[*index] = (claim.weight * rate).min(claim.cap);
                }
                any = true;
            }
        }
        any
    }
}

/// Capacity for each unit of weight, such that all of it is used, or everybody has what it can use.
fn rate(capacity: f64, claims: &[Claim]) -> f64 {
    let mut by_need: Vec<_> = claims.iter().filter(|claim| claim.weight > 0.0).collect();
    by_need.sort_by(|one, other| (one.cap / one.weight).total_cmp(&(other.cap / other.weight)));
    let mut weights: f64 = by_need.iter().map(|claim| claim.weight).sum();
    let mut left = capacity;
    for claim in &by_need {
        let rate = left / weights;
        if claim.cap > claim.weight * rate {
            return rate;
        }
        left -= claim.cap;
        weights -= claim.weight;
    }
    by_need.last().map_or(0.0, |claim| claim.cap / claim.weight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOG: Claimant = Claimant { weight: 1024.0, demand: 1.0, pin: None };

    fn flat(nr_cpus: usize, tasks: &[Claimant]) -> Vec<f64> {
        shares(nr_cpus, &(0..tasks.len()).map(ShareNode::Task).collect::<Vec<_>>(), tasks)
    }

    fn group(weight: f64, limit: f64, tasks: std::ops::Range<usize>) -> ShareNode {
        ShareNode::Group { weight, limit, children: tasks.map(ShareNode::Task).collect() }
    }

    #[track_caller]
    fn assert_near(shares: &[f64], expected: &[f64]) {
        let is_near = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.001);
        assert!(is_near && shares.len() == expected.len(), "{shares:?} instead of {expected:?}");
    }

    #[test]
    fn weights_are_the_kernels() {
        assert_eq!([-20, 0, 10, 15, 19].map(|nice| nice_weight(nice) as u32), [88_761, 1_024, 110, 36, 15]);
    }

    #[test]
    fn nice_levels_divide_as_the_default_scheduler_was_measured() {
        let nice = Claimant { weight: nice_weight(10), ..HOG };
        let shares = flat(4, &[[HOG; 4], [nice; 4]].concat());
        assert_near(&[shares[..4].iter().sum(), shares[4..].iter().sum()], &[3.612, 0.388]);
    }

    #[test]
    fn who_wants_less_leaves_the_rest_to_others() {
        let modest = Claimant { demand: 0.1, ..HOG };
        assert_near(&flat(1, &[modest, HOG, HOG]), &[0.1, 0.45, 0.45]);
        assert_near(&flat(4, &[modest, HOG]), &[0.1, 1.0]);
    }

    #[test]
    fn nobody_uses_two_cpus() {
        let heavy = Claimant { weight: 88761.0, ..HOG };
        assert_near(&flat(2, &[heavy, HOG, HOG]), &[1.0, 0.5, 0.5]);
    }

    #[test]
    fn groups_of_equal_weight_get_the_same() {
        let root = [group(1024.0, f64::INFINITY, 0..8), group(1024.0, f64::INFINITY, 8..10)];
        let shares = shares(4, &root, &[HOG; 10]);
        assert_near(&[shares[..8].iter().sum(), shares[8..].iter().sum()], &[2.0, 2.0]);
    }

    #[test]
    fn weights_count_at_their_level_only() {
        let parent = ShareNode::Group {
            weight: 1024.0,
            limit: f64::INFINITY,
            children: vec![group(1024.0, f64::INFINITY, 4..8), group(1024.0, f64::INFINITY, 8..16)],
        };
        let shares = shares(4, &[group(3072.0, f64::INFINITY, 0..4), parent], &[HOG; 16]);
        let sums: Vec<f64> = [0..4, 4..8, 8..16].map(|range| shares[range].iter().sum()).into();
        assert_near(&sums, &[3.0, 0.5, 0.5]);
    }

    #[test]
    fn limits_hold_and_tasks_compete_beside_groups() {
        let root = [group(1024.0, 0.5, 0..4), ShareNode::Task(4)];
        assert_near(&shares(4, &root, &[HOG; 5]), &[0.125, 0.125, 0.125, 0.125, 1.0]);
        let root = [group(1024.0, f64::INFINITY, 0..2), ShareNode::Task(2), ShareNode::Task(3)];
        assert_near(&shares(1, &root, &[HOG; 4]), &[1.0 / 6.0, 1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn idle_groups_get_next_to_nothing() {
        let root = [group(IDLE_WEIGHT, f64::INFINITY, 0..4), group(1024.0, f64::INFINITY, 4..8)];
        let shares = shares(4, &root, &[HOG; 8]);
        assert!(shares[..4].iter().sum::<f64>() < 0.02, "{shares:?}");
    }

    #[test]
    fn tasks_that_crowd_a_cpu_share_it() {
        let pinned = Claimant { pin: Some(1), ..HOG };
        assert_near(&flat(2, &[pinned, pinned, pinned, HOG]), &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0]);
        let heavy = Claimant { weight: 2048.0, ..pinned };
        assert_near(&flat(4, &[heavy, pinned]), &[2.0 / 3.0, 1.0 / 3.0]);
        assert_near(&flat(2, &[pinned, HOG, HOG, HOG]), &[0.5; 4]);
    }

    fn tasks(nr_cpus: usize) -> impl Strategy<Value = Vec<Claimant>> {
        let pin = proptest::option::weighted(0.3, 0..nr_cpus);
        let task = (-20..20, 0.01..1.0_f64, pin);
        let task = task.prop_map(|(nice, demand, pin)| Claimant { weight: nice_weight(nice), demand, pin });
        proptest::collection::vec(task, 1..20)
    }

    proptest! {
        #[test]
        fn no_cpu_and_no_demand_is_exceeded(tasks in tasks(4)) {
            let shares = flat(4, &tasks);
            for (share, task) in shares.iter().zip(&tasks) {
                prop_assert!(*share > 0.0 && *share <= task.demand + EPSILON);
            }
            prop_assert!(shares.iter().sum::<f64>() <= 4.0 + EPSILON);
            for cpu in 0..4 {
                let pinned = shares.iter().zip(&tasks).filter(|(_, task)| task.pin == Some(cpu));
                prop_assert!(pinned.map(|(share, _)| share).sum::<f64>() <= 1.0 + 1e-6);
            }
        }

        #[test]
        fn without_pins_nothing_is_wasted(tasks in tasks(4)) {
            let tasks: Vec<_> = tasks.into_iter().map(|task| Claimant { pin: None, ..task }).collect();
            let wanted: f64 = tasks.iter().map(|task| task.demand).sum();
            let given: f64 = flat(4, &tasks).iter().sum();
            prop_assert!((given - wanted.min(4.0)).abs() < 1e-6, "{} of {}", given, wanted);
        }
    }
}
