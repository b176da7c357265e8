//! What each task should get: weighted max-min fairness, by water-filling.
//!
//! CPU time is divided by weight; a task that wants less than its part gets what it wants, and the rest is divided anew. No
//! task can use more than one CPU.

/// Parts of a CPU are counted in this many.
pub const WHOLE_CPU: u64 = 1_000_000;

/// What a task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its weight.
    pub weight: u64,
    /// Of a CPU; a task can use [`WHOLE_CPU`] at most.
    pub wanted: u64,
}

/// What competes at one level of the tree of control groups.
#[derive(Clone, Debug)]
pub enum Node {
    /// Index of a task.
    Task(usize),
    /// A group.
    Group {
        /// Among its siblings.
        weight: u64,
        /// What all in it may have together.
        limit: u64,
        /// What is in it.
        children: Vec<Self>,
    },
}

/// What each task gets of so many CPUs.
pub fn fair_shares(nr_cpus: usize, root: &[Node], demands: &[Demand]) -> Vec<u64> {
    let mut shares = vec![0; demands.len()];
    divide_among(root, nr_cpus as u64 * WHOLE_CPU, demands, &mut shares);
    shares
}

fn divide_among(nodes: &[Node], capacity: u64, demands: &[Demand], shares: &mut [u64]) {
    let wanted: Vec<Demand> = nodes.iter().map(|node| demand(node, demands)).collect();
    for (node, share) in nodes.iter().zip(divide(capacity, &wanted)) {
        match node {
            Node::Task(index) => shares[*index] = share,
            Node::Group { children, .. } => divide_among(children, share, demands, shares),
        }
    }
}

fn demand(node: &Node, demands: &[Demand]) -> Demand {
    match node {
        Node::Task(index) => Demand { wanted: demands[*index].wanted.min(WHOLE_CPU), ..demands[*index] },
        Node::Group { weight, limit, children } => {
            let wanted: u64 = children.iter().map(|child| demand(child, demands).wanted).sum();
            Demand { weight: *weight, wanted: wanted.min(*limit) }
        }
    }
}

/// What each gets of a capacity.
fn divide(capacity: u64, demands: &[Demand]) -> Vec<u64> {
    let mut shares = vec![0; demands.len()];
    let mut left = capacity;
    let mut open: Vec<usize> = (0..demands.len()).collect();
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|index| demands[*index].weight).sum();
        let part = |index: usize| (u128::from(left) * u128::from(demands[index].weight) / u128::from(weights)) as u64;
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|index| demands[**index].wanted <= part(**index));
        if full.is_empty() {
            for index in rest {
                shares[index] = part(index);
            }
            break;
        }
        for index in full {
            shares[index] = demands[index].wanted;
            left -= shares[index];
        }
        open = rest;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flat(nr_cpus: usize, demands: &[Demand]) -> Vec<u64> {
        let tasks: Vec<Node> = (0..demands.len()).map(Node::Task).collect();
        fair_shares(nr_cpus, &tasks, demands)
    }

    const HOG: Demand = Demand { weight: 100, wanted: WHOLE_CPU };

    #[test]
    fn weights_divide_what_is_left() {
        let modest = Demand { weight: 100, wanted: WHOLE_CPU / 10 };
        let heavy = Demand { weight: 300, ..HOG };
        assert_eq!(flat(1, &[HOG, heavy, modest]), [225_000, 675_000, 100_000]);
    }

    #[test]
    fn nobody_uses_two_cpus() {
        let heavy = Demand { weight: 8668, ..HOG };
        assert_eq!(flat(2, &[heavy, HOG, HOG]), [WHOLE_CPU, WHOLE_CPU / 2, WHOLE_CPU / 2]);
    }

    #[test]
    fn groups_divide_by_their_own_weight_up_to_their_limit() {
        let group = |limit, children: &[usize]| Node::Group {
            weight: 100,
            limit,
            children: children.iter().copied().map(Node::Task).collect(),
        };
        let root = [group(u64::MAX, &[0, 1]), group(WHOLE_CPU / 4, &[2]), Node::Task(3)];
        assert_eq!(fair_shares(1, &root, &[HOG; 4]), [187_500, 187_500, 250_000, 375_000]);
    }

    proptest! {
        #[test]
        fn nothing_is_wasted_and_nobody_gets_more_than_wanted(
            nr_cpus in 1usize..9,
            demands in proptest::collection::vec((1u64..10_000, 1u64..=WHOLE_CPU), 1..20),
        ) {
            let demands: Vec<Demand> = demands.into_iter().map(|(weight, wanted)| Demand { weight, wanted }).collect();
            let shares = flat(nr_cpus, &demands);
            let wanted: u64 = demands.iter().map(|demand| demand.wanted).sum();
            let given: u64 = shares.iter().sum();
            let most = wanted.min(nr_cpus as u64 * WHOLE_CPU);
            prop_assert!(given <= most && given + 20 >= most, "{} of {}", given, most);
            for (share, demand) in shares.iter().zip(&demands) {
                prop_assert!(*share <= demand.wanted);
            }
        }
    }
}
