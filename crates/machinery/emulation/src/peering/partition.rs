//! Partitioning of a graph into parts of similar weight, such that the cut edges have a low total
//! cost.
//!
//! The method is multilevel (Karypis and Kumar, 1998). The graph is coarsened by merging the ends
//! of heavy edges. The coarsest graph is cut in two by growing a part from one node. On the way
//! back, each level is refined by moving border nodes (Fiduccia and Mattheyses, 1982). Repeated
//! cuts give more than two parts. The result is deterministic.

mod load;
mod proposal;

use std::collections::{BTreeMap, BinaryHeap};

use timeloom_net::{Owner, World};
use timeloom_time::Duration;

use load::{Fluid, Load};
pub use proposal::{Proposal, propose, spread};

/// Graph with weights on nodes and edges.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Weight of each node: its estimated work.
    pub nodes: Vec<u64>,
    /// Edges of each node: the neighbour, and the cost of cutting the edge.
    pub edges: Vec<Vec<(u32, u64)>>,
}

impl Graph {
    /// Creates a graph of `nodes` nodes of weight 1, without edges.
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![1; nodes],
            edges: vec![Vec::new(); nodes],
        }
    }

    /// Adds an edge of the given cost. The costs of parallel edges add up.
    pub fn connect(&mut self, a: u32, b: u32, cost: u64) {
        for (from, to) in [(a, b), (b, a)] {
            let list = &mut self.edges[from as usize];
            match list.iter_mut().find(|(other, _)| *other == to) {
                Some((_, sum)) => *sum += cost,
                None => list.push((to, cost)),
            }
        }
    }

    /// Returns the total cost of the edges that this assignment of nodes to parts cuts.
    pub fn cost(&self, parts: &[Owner]) -> u64 {
        let edges = self.edges.iter().enumerate().flat_map(|(from, list)| {
            let cut = move |&&(to, _): &&(u32, u64)| parts[from] != parts[to as usize];
            list.iter().filter(cut).map(|(_, cost)| *cost)
        });
        edges.sum::<u64>() / 2
    }

    fn total(&self) -> u64 {
        self.nodes.iter().sum()
    }
}

/// Fraction by which a part may exceed its share of the weight.
const SLACK: f64 = 0.05;
/// Number of nodes up to which a graph is not coarsened further.
const COARSE: usize = 64;

/// Returns the part of each node of `world`. Cables with a delay below `shortest` are not cut, nor
/// are those on the path of fluid. Of the other cables, those with little traffic are preferred.
/// Work and traffic are estimated from the world's flows and sources, each on a path with the
/// fewest hops.
pub fn of_world(world: &World, parts: Owner, shortest: Duration) -> Vec<Owner> {
    Load::of(world, &[]).cut(world, parts, shortest, Fluid::Stays)
}

/// Returns the part of each node of a graph that is cut into `parts` parts, numbered from 0.
pub fn partition(graph: &Graph, parts: Owner) -> Vec<Owner> {
    let mut owners = vec![0; graph.nodes.len()];
    let all: Vec<u32> = (0..graph.nodes.len() as u32).collect();
    divide(graph, &all, 0, parts.max(1), &mut owners);
    owners
}

fn divide(graph: &Graph, members: &[u32], first: Owner, parts: Owner, owners: &mut [Owner]) {
    if parts == 1 || members.len() < 2 {
        members
            .iter()
            .for_each(|node| owners[*node as usize] = first);
        return;
    }
    let mut place = vec![u32::MAX; graph.nodes.len()];
    for (index, node) in members.iter().enumerate() {
        place[*node as usize] = index as u32;
    }
    let inside = |list: &Vec<(u32, u64)>| -> Vec<(u32, u64)> {
        let kept = list.iter().map(|(to, cost)| (place[*to as usize], *cost));
        kept.filter(|(to, _)| *to != u32::MAX).collect()
    };
    let part = Graph {
        nodes: members
            .iter()
            .map(|node| graph.nodes[*node as usize])
            .collect(),
        edges: members
            .iter()
            .map(|node| inside(&graph.edges[*node as usize]))
            .collect(),
    };
    let left = parts / 2;
    let share = f64::from(left) / f64::from(parts);
    let side = bisect(&part, share);
    let of = |wanted: bool| -> Vec<u32> {
        let chosen = members
            .iter()
            .zip(&side)
            .filter(|(_, side)| **side == wanted);
        chosen.map(|(node, _)| *node).collect()
    };
    divide(graph, &of(true), first, left, owners);
    divide(graph, &of(false), first + left, parts - left, owners);
}

/// Cuts a graph in two. The side marked `true` gets the fraction `share` of the weight.
fn bisect(graph: &Graph, share: f64) -> Vec<bool> {
    let coarser = (graph.nodes.len() > COARSE).then(|| coarsen(graph));
    // Merging pairs of nodes hardly coarsens a star, so a star is cut at this level.
    let coarser = coarser.filter(|(small, _)| small.nodes.len() * 20 < graph.nodes.len() * 19);
    let mut side = match coarser {
        Some((small, place)) => {
            let side = bisect(&small, share);
            place.iter().map(|place| side[*place as usize]).collect()
        }
        None => grow(graph, share),
    };
    refine(graph, share, &mut side);
    side
}

/// Merges pairs of nodes along heavy edges. Returns the coarser graph, and the new node of each old
/// one.
fn coarsen(graph: &Graph) -> (Graph, Vec<u32>) {
    let mut place = vec![u32::MAX; graph.nodes.len()];
    let mut small = Graph::default();
    // A heavier node could make a balanced cut impossible.
    let most = graph.total() / 16 + 1;
    for node in 0..graph.nodes.len() {
        if place[node] != u32::MAX {
            continue;
        }
        let number = small.nodes.len() as u32;
        place[node] = number;
        let mut weight = graph.nodes[node];
        let fits = |&&(to, _): &&(u32, u64)| {
            place[to as usize] == u32::MAX && weight + graph.nodes[to as usize] <= most
        };
        let heaviest = graph.edges[node].iter().filter(fits);
        if let Some(&(mate, _)) = heaviest.max_by_key(|(to, cost)| (*cost, u32::MAX - to)) {
            place[mate as usize] = number;
            weight += graph.nodes[mate as usize];
        }
        small.nodes.push(weight);
    }
    let mut edges: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); small.nodes.len()];
    for (node, list) in graph.edges.iter().enumerate() {
        for (to, cost) in list {
            let (a, b) = (place[node], place[*to as usize]);
            if a != b {
                *edges[a as usize].entry(b).or_default() += cost;
            }
        }
    }
    small.edges = edges
        .into_iter()
        .map(|map| map.into_iter().collect())
        .collect();
    (small, place)
}

/// Grows the side marked `true` from several start nodes in turn, and returns the cheapest cut
/// found.
fn grow(graph: &Graph, share: f64) -> Vec<bool> {
    let wanted = graph.total() as f64 * share;
    let count = graph.nodes.len();
    let sum = |list: &Vec<(u32, u64)>| list.iter().map(|(_, cost)| *cost as i64).sum::<i64>();
    let alone: Vec<i64> = graph.edges.iter().map(|list| -sum(list)).collect();
    let starts = (0..8.min(count)).map(|start| start * count / 8.min(count));
    let grown = starts.map(|start| {
        let mut side = vec![false; count];
        // The heap is ordered by how much a node reduces the cut's cost. An idle leaf therefore
        // precedes its hub, which would bring all its leaves along.
        let mut gain: Vec<i64> = alone.clone();
        let mut weight = 0u64;
        let mut heap = BinaryHeap::from([(alone[start], start)]);
        let mut fresh = 0;
        while (weight as f64) < wanted {
            let Some((key, node)) = heap.pop() else {
                // The start of another connected component.
                while fresh < count && side[fresh] {
                    fresh += 1;
                }
                if fresh == count {
                    break;
                }
                // Each node is pushed once, so a node that is too heavy is skipped for good.
                heap.push((gain[fresh], fresh));
                fresh += 1;
                continue;
            };
            if side[node] || key != gain[node] {
                continue;
            }
            let heavier = weight + graph.nodes[node];
            if heavier as f64 - wanted > wanted - weight as f64 {
                continue;
            }
            side[node] = true;
            weight = heavier;
            for &(to, cost) in &graph.edges[node] {
                gain[to as usize] += 2 * cost as i64;
                heap.push((gain[to as usize], to as usize));
            }
        }
        refine(graph, share, &mut side);
        side
    });
    let cost = |side: &Vec<bool>| {
        let off = (weight_of(graph, side) as f64 - wanted).abs();
        let unbalanced = off > graph.total() as f64 * SLACK;
        (unbalanced, cut_of(graph, side), off as u64)
    };
    grown.min_by_key(cost).unwrap_or_default()
}

fn weight_of(graph: &Graph, side: &[bool]) -> u64 {
    let nodes = graph.nodes.iter().zip(side);
    nodes
        .filter(|(_, side)| **side)
        .map(|(weight, _)| weight)
        .sum()
}

fn cut_of(graph: &Graph, side: &[bool]) -> u64 {
    let parts: Vec<Owner> = side.iter().map(|side| Owner::from(*side)).collect();
    graph.cost(&parts)
}

/// Improves a cut in passes. Each pass moves every node once, the best move first, and keeps the
/// best prefix of these moves.
fn refine(graph: &Graph, share: f64, side: &mut [bool]) {
    let total = graph.total() as f64;
    let wanted = total * share;
    let heaviest = graph.nodes.iter().copied().max().unwrap_or(0) as f64;
    let slack = (total * SLACK).max(heaviest / 2.0);
    for _ in 0..8 {
        let mut weight = weight_of(graph, side) as f64;
        let mut gains: Vec<i64> = (0..side.len())
            .map(|node| gain(graph, side, node))
            .collect();
        let mut heap: BinaryHeap<(i64, usize)> = gains
            .iter()
            .enumerate()
            .map(|(node, gain)| (*gain, node))
            .collect();
        let mut moved = vec![false; side.len()];
        let mut order = Vec::new();
        let off = |weight: f64| ((weight - wanted).abs() - slack).max(0.0);
        let (mut sum, mut best) = (0i64, (off(weight), 0i64, 0usize));
        while let Some((key, node)) = heap.pop() {
            if moved[node] || key != gains[node] {
                continue;
            }
            let own = graph.nodes[node] as f64;
            let after = if side[node] {
                weight - own
            } else {
                weight + own
            };
            if off(after) > off(weight) {
                continue;
            }
            moved[node] = true;
            side[node] = !side[node];
            weight = after;
            sum += key;
            order.push(node);
            for &(to, _) in &graph.edges[node] {
                let to = to as usize;
                if !moved[to] {
                    gains[to] = gain(graph, side, to);
                    heap.push((gains[to], to));
                }
            }
            if off(weight) < best.0 || (off(weight) == best.0 && sum > best.1) {
                best = (off(weight), sum, order.len());
            }
        }
        order[best.2..]
            .iter()
            .for_each(|node| side[*node] = !side[*node]);
        if best.2 == 0 {
            break;
        }
    }
}

/// Returns by how much the cut's cost falls if `node` changes sides.
fn gain(graph: &Graph, side: &[bool], node: usize) -> i64 {
    let edges = graph.edges[node].iter();
    let signed = edges.map(|(to, cost)| {
        if side[*to as usize] == side[node] {
            -(*cost as i64)
        } else {
            *cost as i64
        }
    });
    signed.sum()
}
