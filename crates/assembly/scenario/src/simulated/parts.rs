//! Division of a network among several engines: assignment of the nodes, and the estimated cost.

use timeloom_emulation::peering::partition::{self, Proposal};
use timeloom_emulation::peering::{Cut, CutError};
use timeloom_guest::Compute;
use timeloom_net::{Node, Owner, World};

use super::{Fault, Maker, Uplinks, addresses};
use crate::plan::{EngineMode, Engines, Plan};
use crate::suggest;

/// Parts of a simulated network, each of which is simulated by an engine.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Names of the engines, in order.
    pub names: Vec<String>,
    /// Assignment of the nodes to engines, and each engine's share of the work.
    pub proposal: Proposal,
}

impl Parts {
    /// Returns the cut between the engines.
    pub fn cut(&self) -> &Cut {
        &self.proposal.cut
    }

    /// Returns the directions in which packets pass between engines, in order. Each is a pair of
    /// sender and receiver.
    pub fn adjacent(&self) -> Vec<(Owner, Owner)> {
        let links = self.cut().links().iter();
        let mut pairs: Vec<_> = links.map(|(_, from, to)| (*from, *to)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Returns the name of a direction, such as `west-east` in `net.cut.west-east.late`.
    pub fn cut_name(&self, from: Owner, to: Owner) -> String {
        let name = |owner: Owner| &self.names[usize::from(owner)];
        format!("{}-{}", name(from), name(to))
    }
}

impl Maker<'_> {
    pub(super) fn parts(&self, world: &World, uplinks: &Uplinks) -> Result<Option<Parts>, Fault> {
        let Some(engines) = &self.network.engines else {
            return Ok(None);
        };
        let stations = addresses(self.plan).map(|(name, _)| self.nodes[name]);
        let plugs = uplinks.iter().map(|(_, node)| *node);
        let stations: Vec<Node> = stations.chain(plugs).collect();
        let proposal = match engines.count {
            Some(count) => partition::propose(world, count, &stations).ok_or_else(|| {
                let message = format!("this network cannot be cut into {count} parts");
                let help = "only links with a `delay` can be cut: write fewer engines, or give \
                            links a `delay`";
                fault(&["count"], message, help)
            })?,
            None => {
                let owners = partition::spread(world, &self.seeds(world, engines)?);
                let cut = Cut::new(world, owners).map_err(|error| cut_fault(&error))?;
                Proposal::of_cut(world, cut, &stations)
            }
        };
        Ok(Some(Parts {
            names: engines.names(),
            proposal,
        }))
    }

    /// Returns the nodes that the scenario lists, each with its engine.
    fn seeds(&self, world: &World, engines: &Engines) -> Result<Vec<(Node, Owner)>, Fault> {
        let mut seeds: Vec<(Node, Owner)> = Vec::new();
        for (owner, (engine, names)) in (0..).zip(&engines.parts) {
            for (index, name) in names.iter().enumerate() {
                let path = ["parts", engine.as_str(), &index.to_string()];
                let nodes = self.matching(world, name);
                if nodes.is_empty() {
                    let known = self.nodes.keys().map(String::as_str);
                    let help = suggest::hint(name, "node", known);
                    return Err(fault(&path, format!("`{name}` is not a node"), &help));
                }
                for node in nodes {
                    let other = seeds.iter().find(|(seed, _)| *seed == node);
                    if let Some((_, other)) = other.filter(|(_, other)| *other != owner) {
                        let other = engines.parts.keys().nth(usize::from(*other));
                        let other = other.map_or("", String::as_str);
                        let node = world.name(node);
                        let message = format!("`{node}` is a part of engine `{other}`");
                        return Err(fault(&path, message, "a node has one engine"));
                    }
                    seeds.push((node, owner));
                }
            }
        }
        self.places(world, engines, &mut seeds)?;
        Ok(seeds)
    }

    /// Assigns the hosts and devices of each agent to the agent's engine.
    fn places(
        &self,
        world: &World,
        engines: &Engines,
        seeds: &mut Vec<(Node, Owner)>,
    ) -> Result<(), Fault> {
        let placement = &self.plan.placement;
        if !placement.is_spread() {
            return Ok(());
        }
        let system = &self.plan.system;
        let stations = system.hosts.keys().chain(system.devices.keys());
        let stations = stations.map(|name| (name, placement.of_node(name)));
        let switches = system.switches.iter();
        let switches =
            switches.filter_map(|name| Some((name, placement.nodes.get(name)?.as_str())));
        for (name, agent) in stations.chain(switches) {
            let owner = (0..)
                .zip(engines.parts.keys())
                .find(|(_, engine)| *engine == agent);
            // Another rule reports an agent that has no engine.
            let Some(((owner, _), node)) = owner.zip(self.nodes.get(name)) else {
                continue;
            };
            let other = seeds
                .iter()
                .find(|(seed, other)| seed == node && *other != owner);
            if let Some((_, other)) = other {
                let other = engines.parts.keys().nth(usize::from(*other));
                let other = other.map_or("", String::as_str);
                let node = world.name(*node);
                let message = format!("`{node}` runs on agent `{agent}`");
                let help = "take it out of this part, or place it on the agent of that name";
                return Err(fault(&["parts", other], message, help));
            }
            seeds.push((*node, owner));
        }
        Ok(())
    }

    /// Returns the nodes whose name is `name` or, with a `*` at the end, begins with it.
    fn matching(&self, world: &World, name: &str) -> Vec<Node> {
        match name.strip_suffix('*') {
            None => self.nodes.get(name).copied().into_iter().collect(),
            Some(start) => {
                let nodes = (0..world.nodes() as u32).map(Node);
                nodes
                    .filter(|node| world.name(*node).starts_with(start))
                    .collect()
            }
        }
    }
}

impl Plan {
    /// Describes for users the cut of a network between several engines, and its estimated cost.
    /// Returns nothing if there is only one engine.
    pub fn cut_report(&self) -> Vec<String> {
        let built = self.simulated().and_then(Result::ok);
        let Some((built, network)) = built.zip(self.network.as_ref()) else {
            return Vec::new();
        };
        let Some((parts, engines)) = built.parts.as_ref().zip(network.engines.as_ref()) else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        for (owner, name) in (0..).zip(&parts.names) {
            let owners = parts.cut().owners();
            let nodes = owners.iter().filter(|other| **other == owner).count();
            let share = parts.proposal.shares[usize::from(owner)] * 100.0;
            lines.push(format!(
                "engine {name}: {nodes} nodes, {share:.0} % of the estimated work"
            ));
        }
        let cables = built.names.cables.iter().filter(|cable| {
            let links = parts.cut().links();
            links.iter().any(|(port, ..)| *port == cable.there)
        });
        let cables: Vec<String> = cables
            .map(|cable| format!("{} ({})", cable.name, built.world.least_delay(cable.there)))
            .collect();
        let shown = cables.len().min(MOST_SHOWN);
        let more = match cables.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!("cut: {}{more}", cables[..shown].join(", ")));
        lines.push(self.cost_of_cut(parts, engines));
        lines
    }

    fn cost_of_cut(&self, parts: &Parts, engines: &Engines) -> String {
        let lookahead = parts.cut().lookahead();
        if parts.cut().links().is_empty() {
            return "nothing is cut".to_owned();
        }
        let of_machine = lookahead.as_s_f64() * self.time.dilation;
        let busiest = parts.proposal.imbalance() / parts.names.len() as f64;
        let gain = 1.0 / busiest;
        let speed = format!("at best {gain:.1} times what one engine carries");
        if self.time.compute == Compute::None {
            return "cost: the engines run in turn while the clock stands, and are no faster than \
                    one"
            .to_owned();
        }
        match engines.mode {
            EngineMode::Free => format!(
                "cost: a packet has {:.0} us of the machine's time to cross, or it is late; {speed}",
                of_machine * 1e6
            ),
            EngineMode::Exact => format!(
                "cost: up to {:.0} agreements a second of the machine's time; {speed}",
                1.0 / of_machine
            ),
        }
    }
}

fn cut_fault(error: &CutError) -> Fault {
    let help = match error {
        CutError::NoDelay(..) => "name both in one engine, or give the link a `delay`",
        CutError::Owners(..) => "name nodes of this network",
    };
    fault(&["parts"], error.to_string(), help)
}

fn fault(path: &[&str], message: String, help: &str) -> Fault {
    let start = ["network", "engines"].iter();
    Fault {
        path: start.chain(path).map(|part| (*part).to_owned()).collect(),
        is_table: false,
        message,
        help: help.to_owned(),
    }
}

/// Maximum number of cut links that are listed. A fat tree has hundreds.
const MOST_SHOWN: usize = 8;
