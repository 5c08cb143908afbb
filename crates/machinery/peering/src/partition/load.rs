//! What a network costs and where: estimated from its traffic, before it runs.

use std::collections::{BTreeMap, VecDeque};

use timeloom_net::{Cable, Node, Owner, World};
use timeloom_time::Duration;

use super::{Graph, partition};

/// The work of nodes and the traffic of cables, estimated.
pub(super) struct Load {
    /// By node.
    work: Vec<u64>,
    /// By the two ends of a cable.
    traffic: BTreeMap<(u32, u32), u64>,
}

/// The weight of a flow on a node or cable beside that of the node or cable.
const TRAFFIC: u64 = 16;
/// That of a host with real programs: each frame is a call of the kernel.
const STATION: u64 = 64;

impl Load {
    /// That of the world's flows and sources, each by a path with the fewest hops, and of
    /// `stations`, where real programs are.
    pub(super) fn of(world: &World, stations: &[Node]) -> Self {
        let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); world.nodes()];
        for cable in world.cables() {
            neighbours[cable.from.0 as usize].push(cable.to.0);
        }
        // Every node and cable costs a little, traffic or not.
        let mut work = vec![1u64; world.nodes()];
        let mut traffic: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut by_start: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (Node(from), Node(to)) in world.traffic_ends() {
            by_start.entry(from).or_default().push(to);
        }
        for (from, ends) in by_start {
            let before = paths(&neighbours, from);
            for end in ends {
                let mut at = end;
                work[at as usize] += TRAFFIC;
                while at != from && before[at as usize] != u32::MAX {
                    let previous = before[at as usize];
                    work[previous as usize] += TRAFFIC;
                    *traffic.entry(ordered(at, previous)).or_default() += TRAFFIC;
                    at = previous;
                }
            }
        }
        for station in stations {
            work[station.0 as usize] += STATION;
        }
        Self { work, traffic }
    }

    /// One part for each node; cables shorter than `shortest`, and those that fluid passes,
    /// are not cut.
    pub(super) fn cut(&self, world: &World, parts: Owner, shortest: Duration) -> Vec<Owner> {
        let cables: Vec<_> = world.cables().collect();
        // Nodes at short cables become one.
        let mut group: Vec<u32> = (0..world.nodes() as u32).collect();
        // Rates do not cross from engine to engine, so fluid keeps nodes together, too.
        let whole = |cable: &&Cable| cable.delay < shortest || world.has_fluid(cable.port);
        for cable in cables.iter().filter(whole) {
            let (a, b) = (root(&mut group, cable.from.0), root(&mut group, cable.to.0));
            group[a.max(b) as usize] = a.min(b);
        }
        let mut number: BTreeMap<u32, u32> = BTreeMap::new();
        let place: Vec<u32> = (0..world.nodes() as u32)
            .map(|node| {
                let root = root(&mut group, node);
                let next = number.len() as u32;
                *number.entry(root).or_insert(next)
            })
            .collect();
        let mut graph = Graph::new(number.len());
        graph.nodes.fill(0);
        for (node, work) in self.work.iter().enumerate() {
            graph.nodes[place[node] as usize] += work;
        }
        let mut edges: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for cable in cables.iter().step_by(2) {
            let (a, b) = (place[cable.from.0 as usize], place[cable.to.0 as usize]);
            if a != b {
                let load = self.traffic.get(&ordered(cable.from.0, cable.to.0));
                *edges.entry(ordered(a, b)).or_default() += 1 + load.copied().unwrap_or(0);
            }
        }
        for ((a, b), cost) in edges {
            graph.edges[a as usize].push((b, cost));
            graph.edges[b as usize].push((a, cost));
        }
        let parts = partition(&graph, parts);
        place.iter().map(|place| parts[*place as usize]).collect()
    }

    /// Of each part, its share of the work.
    pub(super) fn shares(&self, owners: &[Owner], parts: Owner) -> Vec<f64> {
        let mut shares = vec![0.0; usize::from(parts)];
        for (owner, work) in owners.iter().zip(&self.work) {
            shares[usize::from(*owner)] += *work as f64;
        }
        let total = shares.iter().sum::<f64>().max(1.0);
        shares.iter().map(|share| share / total).collect()
    }
}

fn ordered(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

fn root(group: &mut [u32], mut at: u32) -> u32 {
    while group[at as usize] != at {
        group[at as usize] = group[group[at as usize] as usize];
        at = group[at as usize];
    }
    at
}

/// From each node the one before it on a path with the fewest hops.
fn paths(neighbours: &[Vec<u32>], from: u32) -> Vec<u32> {
    let mut before = vec![u32::MAX; neighbours.len()];
    before[from as usize] = from;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &next in &neighbours[at as usize] {
            if before[next as usize] == u32::MAX {
                before[next as usize] = at;
                queue.push_back(next);
            }
        }
    }
    before
}
