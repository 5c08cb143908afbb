//! Load of each node and cable of a network, estimated from its traffic before the run.

use std::collections::{BTreeMap, VecDeque};

use timeloom_net::{Cable, Node, Owner, World};
use timeloom_time::Duration;

use super::{Graph, partition};

/// Estimated work of the nodes and traffic of the cables.
pub(super) struct Load {
    /// Work of each node.
    work: Vec<u64>,
    /// Traffic of each cable, by the nodes at its ends.
    traffic: BTreeMap<(u32, u32), u64>,
}

/// Treatment of fluid traffic. The result is exact to the last digit only if the path of each fluid
/// flow stays in one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fluid {
    Stays,
    Crosses,
}

/// Weight of a flow on a node or cable. A node or cable without traffic has the weight 1.
const TRAFFIC: u64 = 16;
/// Weight of a host with real programs. It is high, because each of its frames is a system call.
const STATION: u64 = 64;

impl Load {
    /// Estimates the load that the world's flows and sources cause, each on a path with the fewest
    /// hops, and the load of `stations`, the hosts of real programs.
    pub(super) fn of(world: &World, stations: &[Node]) -> Self {
        // Every node and cable has a small cost even without traffic.
        let mut work = vec![1u64; world.nodes()];
        let mut traffic: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let inner = Inner::of(world);
        let mut by_start: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (Node(from), Node(to)) in world.traffic_ends() {
            by_start
                .entry(inner.anchor(from))
                .or_default()
                .push((from, to));
        }
        for (start, flows) in by_start {
            let before = paths(&inner.neighbours, start);
            for (from, to) in flows {
                let end = inner.anchor(to);
                let mut path = vec![to, end];
                let mut at = end;
                while at != start && before[at as usize] != u32::MAX {
                    at = before[at as usize];
                    path.push(at);
                }
                path.push(from);
                path.dedup();
                for node in &path {
                    work[*node as usize] += TRAFFIC;
                }
                for ends in path.windows(2) {
                    *traffic.entry(ordered(ends[0], ends[1])).or_default() += TRAFFIC;
                }
            }
        }
        for station in stations {
            work[station.0 as usize] += STATION;
        }
        Self { work, traffic }
    }

    /// Returns the part of each node. Cables with a delay below `shortest` are not cut. If `fluid`
    /// must stay in one engine, the cables on its path are not cut either.
    pub(super) fn cut(
        &self,
        world: &World,
        parts: Owner,
        shortest: Duration,
        fluid: Fluid,
    ) -> Vec<Owner> {
        let cables: Vec<_> = world.cables().collect();
        // Nodes that are joined by cables that must not be cut become one node.
        let mut group: Vec<u32> = (0..world.nodes() as u32).collect();
        let holds = |cable: &Cable| fluid == Fluid::Stays && world.has_fluid(cable.port);
        let whole = |cable: &&Cable| cable.delay < shortest || holds(cable);
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

    /// Returns the fraction of the work in each part.
    pub(super) fn shares(&self, owners: &[Owner], parts: Owner) -> Vec<f64> {
        let mut shares = vec![0.0; usize::from(parts)];
        for (owner, work) in owners.iter().zip(&self.work) {
            shares[usize::from(*owner)] += *work as f64;
        }
        let total = shares.iter().sum::<f64>().max(1.0);
        shares.iter().map(|share| share / total).collect()
    }
}

/// Nodes through which paths can lead. Most nodes of a large network are hosts with a single cable,
/// and no path leads through such a host.
struct Inner {
    /// Neighbours of each node; empty for a host with a single cable.
    neighbours: Vec<Vec<u32>>,
    /// First node on the paths of each node: the node itself, or the neighbour at its only cable.
    anchors: Vec<u32>,
}

impl Inner {
    fn of(world: &World) -> Self {
        let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); world.nodes()];
        for cable in world.cables() {
            neighbours[cable.from.0 as usize].push(cable.to.0);
        }
        let is_leaf = |node: u32| match neighbours[node as usize][..] {
            // Of two nodes that are connected only to each other, both are kept.
            [only] => neighbours[only as usize].len() > 1,
            _ => false,
        };
        let leaves: Vec<bool> = (0..world.nodes() as u32).map(is_leaf).collect();
        let anchor = |node: usize| match leaves[node] {
            true => neighbours[node][0],
            false => node as u32,
        };
        let anchors = (0..world.nodes()).map(anchor).collect();
        for (node, list) in neighbours.iter_mut().enumerate() {
            if leaves[node] {
                list.clear();
            }
            list.retain(|next| !leaves[*next as usize]);
        }
        Self {
            neighbours,
            anchors,
        }
    }

    fn anchor(&self, node: u32) -> u32 {
        self.anchors[node as usize]
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

/// Returns, for each node, the previous node on a path with the fewest hops.
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
