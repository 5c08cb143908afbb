//! Shortest paths for all routers.
//!
//! A network has many segments and few routers, so the table is indexed by router. A segment's
//! *target* is the router that serves it, and each router knows for every target the neighbours on
//! shortest paths. A lookup takes two array accesses, whatever the number of a router's ports.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use timeloom_time::convert::{low_u32, number_of};

use crate::packet::PortId;

/// Next hop of a packet: out of `port`, to interface `via` of the next router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) port: PortId,
    pub(crate) via: PortId,
}

/// Link from one router to a neighbouring one, with its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) to: u32,
    pub(crate) hop: Hop,
    pub(crate) cost: u32,
}

/// Next hops of all routers to all targets.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    routers: usize,
    /// By router and target: index into `groups`, relative to the router's first group, or
    /// [`NO_WAY`].
    table: Vec<u16>,
    /// Index in `groups` of each router's first group.
    first_group: Vec<u32>,
    /// Groups of equal-cost hops: start and length in `hops`. The hops of a group share the load.
    groups: Vec<(u32, u32)>,
    hops: Vec<Hop>,
}

const NO_WAY: u16 = u16::MAX;

impl Routes {
    /// Computes the shortest paths from every router with Dijkstra's algorithm. `edges` is indexed
    /// by router.
    pub(crate) fn shortest(edges: &[Vec<Edge>]) -> Self {
        let routers = edges.len();
        let mut incoming: Vec<Vec<(u32, u32)>> = vec![Vec::new(); routers];
        for (from, list) in edges.iter().enumerate() {
            for edge in list {
                incoming[edge.to as usize].push((number_of(from), edge.cost));
            }
        }
        let mut table = vec![NO_WAY; routers * routers];
        // The first groups of a router contain one neighbour each.
        let mut sets: Vec<Vec<Vec<u16>>> = edges
            .iter()
            .map(|list| {
                (0..edge_number(list.len()))
                    .map(|edge| vec![edge])
                    .collect()
            })
            .collect();
        let mut known: HashMap<(u32, Vec<u16>), u16> = HashMap::new();
        for target in 0..routers {
            let distance = distances(&incoming, target);
            for (router, list) in edges.iter().enumerate() {
                let here = distance[router];
                if router == target || here == u64::MAX {
                    continue;
                }
                let far = |edge: &Edge| distance[edge.to as usize].saturating_add(edge.cost.into());
                let best = list
                    .iter()
                    .enumerate()
                    .filter(|(_, edge)| far(edge) == here);
                let mut best = best.map(|(index, _)| edge_number(index));
                let (Some(first), second) = (best.next(), best.next()) else {
                    continue;
                };
                table[router * routers + target] = match second {
                    None => first,
                    Some(second) => {
                        let mut set = vec![first, second];
                        set.extend(best);
                        let sets = &mut sets[router];
                        *known
                            .entry((number_of(router), set))
                            .or_insert_with_key(|(_, set)| {
                                sets.push(set.clone());
                                edge_number(sets.len()) - 1
                            })
                    }
                };
            }
        }
        Self::pack(edges, table, &sets)
    }

    fn pack(edges: &[Vec<Edge>], table: Vec<u16>, sets: &[Vec<Vec<u16>>]) -> Self {
        let mut routes = Self {
            routers: edges.len(),
            table,
            ..Self::default()
        };
        for (list, sets) in edges.iter().zip(sets) {
            routes.first_group.push(number_of(routes.groups.len()));
            for set in sets {
                routes
                    .groups
                    .push((number_of(routes.hops.len()), number_of(set.len())));
                let hops = set.iter().map(|edge| list[usize::from(*edge)].hop);
                routes.hops.extend(hops);
            }
        }
        routes
    }

    /// Returns the next hop at `router` towards `target`; `None` if there is no path. `flow`
    /// selects among equal-cost hops, so that the packets of a flow stay in order (RFC 2992).
    #[inline]
    pub(crate) fn hop(&self, router: u32, target: u32, flow: u32) -> Option<Hop> {
        let place = router as usize * self.routers + target as usize;
        let group = *self.table.get(place)?;
        if group == NO_WAY {
            return None;
        }
        let first = self.first_group[router as usize];
        let (start, count) = self.groups[first as usize + usize::from(group)];
        let choice = if count == 1 {
            0
        } else {
            // The hash includes the router; otherwise all routers would make the same choice.
            let mixed = (u64::from(flow) << 32 | u64::from(router)).wrapping_mul(MIX);
            low_u32(((mixed >> 32) * u64::from(count)) >> 32)
        };
        Some(self.hops[(start + choice) as usize])
    }
}

/// An odd number near 2^64 divided by the golden ratio, as multiplier of the hash.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of an edge or of a group of edges of one router.
fn edge_number(index: usize) -> u16 {
    let number = u16::try_from(index).ok().filter(|it| *it != NO_WAY);
    number.expect("a router has fewer than 65,535 edges and groups of them")
}

fn distances(incoming: &[Vec<(u32, u32)>], target: usize) -> Vec<u64> {
    let mut distance = vec![u64::MAX; incoming.len()];
    distance[target] = 0;
    let mut heap = BinaryHeap::from([Reverse((0u64, number_of(target)))]);
    while let Some(Reverse((here, router))) = heap.pop() {
        if here > distance[router as usize] {
            continue;
        }
        for &(from, cost) in &incoming[router as usize] {
            let far = here + u64::from(cost);
            if far < distance[from as usize] {
                distance[from as usize] = far;
                heap.push(Reverse((far, from)));
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(to: u32, cost: u32) -> Edge {
        let port = PortId(to * 2);
        let hop = Hop {
            port,
            via: port.peer(),
        };
        Edge { to, hop, cost }
    }

    #[test]
    fn costs_decide_and_equal_ways_share() {
        // The paths 0 - 1 - 3 and 0 - 2 - 3 have equal cost; the direct path 0 - 3 costs more.
        let edges = [
            vec![edge(1, 1), edge(2, 1), edge(3, 5)],
            vec![edge(0, 1), edge(3, 1)],
            vec![edge(0, 1), edge(3, 1)],
            vec![edge(1, 1), edge(2, 1), edge(0, 5)],
            vec![],
        ];
        let routes = Routes::shortest(&edges);
        let next = |flow| routes.hop(0, 3, flow).map(|hop| hop.port.0 / 2);
        let ones = (0..1_000).filter(|flow| next(*flow) == Some(1)).count();
        assert!((0..1_000).all(|flow| matches!(next(flow), Some(1 | 2))));
        assert!((400..600).contains(&ones), "{ones} of 1000 went one way");
        assert_eq!(routes.hop(0, 4, 0), None);
    }
}
