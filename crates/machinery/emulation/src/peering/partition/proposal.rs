//! Choice of a cut. Of the cuts with a balanced load, this module chooses the one in which the
//! shortest delay of a cut cable is longest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use timeloom_net::{Node, Owner, World};
use timeloom_time::Duration;

use super::load::{Fluid, Load};
use crate::peering::Cut;

/// Cut of a network, with its estimated properties.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The cut.
    pub cut: Cut,
    /// Estimated fraction of the work in each engine, from the traffic.
    pub shares: Vec<f64>,
}

impl Proposal {
    /// Evaluates an existing cut; `stations` are the hosts of real programs.
    pub fn of_cut(world: &World, cut: Cut, stations: &[Node]) -> Self {
        let shares = Load::of(world, stations).shares(cut.owners(), cut.engines());
        Self { cut, shares }
    }

    /// Returns the work of the busiest engine divided by the mean; 1 is the best value.
    pub fn imbalance(&self) -> f64 {
        let most = self.shares.iter().copied().fold(0.0, f64::max);
        most * self.shares.len() as f64
    }

    fn at(
        world: &World,
        load: &Load,
        parts: Owner,
        (shortest, fluid): (Duration, Fluid),
    ) -> Option<Self> {
        let owners = load.cut(world, parts, shortest, fluid);
        let shares = load.shares(&owners, parts);
        if (0..parts).any(|part| !owners.contains(&part)) {
            return None;
        }
        let cut = Cut::new(world, owners).ok()?;
        Some(Self { cut, shares })
    }
}

/// Proposes a cut into `parts` parts, or `None` if there is none because too few nodes are joined
/// by cables with a delay. Each delay that occurs is tried as the shortest one that may be cut. The
/// longest comes first, because the shortest cut cable determines the length of the window, or the
/// time in which packets must be passed. The first cut with a balanced load is taken, or else the
/// best balanced one. `stations` are the hosts of real programs. Cables on the path of fluid are
/// cut only if there is no other way.
pub fn propose(world: &World, parts: Owner, stations: &[Node]) -> Option<Proposal> {
    let load = Load::of(world, stations);
    let found = longest(world, &load, parts, Fluid::Stays);
    found.or_else(|| longest(world, &load, parts, Fluid::Crosses))
}

fn longest(world: &World, load: &Load, parts: Owner, fluid: Fluid) -> Option<Proposal> {
    let mut delays: Vec<Duration> = world.cables().map(|cable| cable.delay).collect();
    delays.retain(|delay| *delay > Duration::ZERO);
    delays.sort_unstable();
    delays.dedup();
    let mut best: Option<Proposal> = None;
    for shortest in spaced(&delays) {
        let Some(found) = Proposal::at(world, load, parts, (shortest, fluid)) else {
            continue;
        };
        if found.imbalance() <= FAIR {
            return Some(found);
        }
        let fairer = |best: &Proposal| found.imbalance() < best.imbalance();
        if best.as_ref().is_none_or(fairer) {
            best = Some(found);
        }
    }
    best
}

/// Returns about [`TRIES`] entries of a sorted list, from the last one to the first. Both of these
/// are included.
fn spaced(delays: &[Duration]) -> impl Iterator<Item = Duration> + '_ {
    let step = delays.len().div_ceil(TRIES).max(1);
    let chosen = delays.iter().rev().step_by(step);
    let is_left_out = !delays.len().saturating_sub(1).is_multiple_of(step);
    chosen
        .chain(delays.first().filter(move |_| is_left_out))
        .copied()
}

/// Returns the owner of each node, which is that of the nearest of `seeds`, measured by delay and
/// then by hops, so that cables with long delays are cut. Of two equally near seeds, the one with
/// the lower number counts. A node that no seed reaches gets owner 0.
pub fn spread(world: &World, seeds: &[(Node, Owner)]) -> Vec<Owner> {
    let mut neighbours: Vec<Vec<(u32, i64)>> = vec![Vec::new(); world.nodes()];
    for cable in world.cables() {
        let next = (cable.to.0, cable.delay.as_ns().max(0));
        neighbours[cable.from.0 as usize].push(next);
    }
    let mut owners: Vec<Option<Owner>> = vec![None; world.nodes()];
    let mut queue: BinaryHeap<Reverse<(i64, u32, Owner, u32)>> = seeds
        .iter()
        .map(|(node, owner)| Reverse((0, 0, *owner, node.0)))
        .collect();
    while let Some(Reverse((delay, hops, owner, node))) = queue.pop() {
        if owners[node as usize].is_some() {
            continue;
        }
        owners[node as usize] = Some(owner);
        for (next, more) in &neighbours[node as usize] {
            if owners[*next as usize].is_none() {
                let delay = delay.saturating_add(*more);
                queue.push(Reverse((delay, hops + 1, owner, *next)));
            }
        }
    }
    owners
        .into_iter()
        .map(|owner| owner.unwrap_or_default())
        .collect()
}

/// Imbalance up to which a cut at the cables with the longest delays is accepted.
const FAIR: f64 = 1.3;
/// Number of delays that are tried. Each one costs a partitioning of the whole network.
const TRIES: usize = 12;
