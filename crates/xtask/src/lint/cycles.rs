//! Cycles in graphs of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What each name depends on.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Cycles of at least `min_length` names, each beginning with its first name in the alphabet. For every dependency that
/// is part of such a cycle there is one that contains it, and that is as short as it can be.
pub(super) fn cycles(graph: &Graph, min_length: usize) -> BTreeSet<Vec<String>> {
    let edges = graph.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    edges.filter_map(|(from, to)| cycle(graph, from, to, min_length)).collect()
}

/// The shortest cycle that begins with a certain dependency. Of at least three names it is if the way back is not
/// direct.
fn cycle(graph: &Graph, from: &str, to: &str, min_length: usize) -> Option<Vec<String>> {
    let way_back = way(graph, to, from, min_length > 2)?;
    let mut names: Vec<_> = std::iter::once(from).chain(way_back).map(str::to_owned).collect();
    names.pop();
    let first = names.iter().enumerate().min_by_key(|(_, name)| *name).map_or(0, |(index, _)| index);
    names.rotate_left(first);
    Some(names)
}

/// The shortest way, both ends included; if wanted, not the direct one.
fn way<'a>(graph: &'a Graph, from: &'a str, to: &'a str, without_direct: bool) -> Option<Vec<&'a str>> {
    let mut came_from = BTreeMap::from([(from, None)]);
    let mut queue = VecDeque::from([from]);
    while let Some(name) = queue.pop_front() {
        if name == to {
            let mut way: Vec<_> = std::iter::successors(Some(to), |name| came_from[name]).collect();
            way.reverse();
            return Some(way);
        }
        for next in graph.get(name).into_iter().flatten() {
            let is_barred = without_direct && name == from && next == to;
            if !is_barred && !came_from.contains_key(next.as_str()) {
                came_from.insert(next, Some(name));
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        graph
    }

    fn found(edges: &[(&str, &str)], min_length: usize) -> Vec<String> {
        cycles(&graph(edges), min_length).into_iter().map(|cycle| cycle.join(" ")).collect()
    }

    #[test]
    fn cycles_are_found_once_and_begin_alike() {
        assert_eq!(found(&[("c", "a"), ("b", "c"), ("a", "b"), ("a", "d")], 2), ["a b c"]);
        assert_eq!(found(&[("a", "b"), ("b", "a"), ("c", "b")], 2), ["a b"]);
        assert!(found(&[("a", "b"), ("b", "c"), ("a", "c")], 2).is_empty());
    }

    #[test]
    fn pairs_make_no_longer_cycle() {
        // Two pairs share a file: they are strongly connected, but nothing goes round.
        assert!(found(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")], 3).is_empty());
        assert_eq!(found(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")], 3), ["a b c"]);
    }
}
