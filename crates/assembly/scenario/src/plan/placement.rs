//! Table `[placement]`, which assigns the parts of an experiment to agents; and the share of a plan
//! that one agent runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use timeloom_guest::Compute;
use timeloom_time::Duration;

use crate::plan::{Link, LinkName, Named, Plan};
use crate::table::table;
use crate::words::BitRate;

table! {
/// Assignment of parts to agents. Without agents, everything runs on the machine that starts the
/// run.
#[noun = "[placement]"]
#[derive(Eq)]
pub struct Placement {
    /// Agent of all parts that are not listed below, or `local`, which is the default.
    pub default: String = Placement::LOCAL.to_owned(),
    /// Agents (`timeloom agent --serve`), by name.
    pub agents: Named<AgentPlace> = Named::new(),
    /// File with the key that this run and its agents share. In a file the path is relative to the
    /// scenario file; in a plan it is absolute.
    pub key_file: Option<PathBuf>,
    /// Agents of hosts, devices and switches, by the names of these.
    pub nodes: BTreeMap<String, String> = BTreeMap::new(),
    /// Agents of plants, by the names of the plants.
    pub plants: BTreeMap<String, String> = BTreeMap::new(),
    /// Files that are copied to all agents in addition to those named elsewhere in the scenario. Of
    /// a directory, the whole content is copied.
    pub files: Vec<PathBuf> = Vec::new(),
    /// Virtual time from the request for a pause to the pause itself. If left out, the shortest
    /// time that message delays permit.
    pub look_ahead: Option<Duration>,
    /// IPv4 multicast group and port, such as `239.1.2.3:5501`, at which an agent sends a message
    /// to all others at once. If left out, each agent sends a message to each other agent.
    pub group: Option<String>,
    /// Maximum wall time for which the level of the wire may differ from the level that the agents
    /// with `gpio` drive. The wire then counts as stuck, and the run is stopped.
    pub gpio_stuck: Duration = Duration::from_s(1),
    /// Debounce time: an edge on the wire within this time after another edge is ignored.
    pub gpio_debounce: Duration = Duration::from_us(20),
    /// Maximum wall time without a message from an agent. The run is then stopped.
    pub patience: Duration = Duration::from_ms(800),
}
}

table! {
/// Agent that runs parts of an experiment.
#[noun = "an agent"]
#[derive(Eq)]
pub struct AgentPlace {
    /// Address at which the agent listens: IP address and port, such as `10.0.0.1:5500`.
    pub address: String,
    /// Pins on the wire that the machines share: chip, output, input for rising edges, and input
    /// for falling edges, such as `gpiochip0:17,27,22`. The wire carries the level of the pause
    /// bus, and the network carries the instants.
    pub gpio: Option<String>,
}
}

impl Placement {
    /// Name that stands for the machine that starts the run.
    pub const LOCAL: &str = "local";

    /// Returns true if parts of the experiment run on agents.
    pub fn is_spread(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Returns the agent of a host, device or switch.
    pub fn of_node(&self, node: &str) -> &str {
        self.nodes.get(node).unwrap_or(&self.default)
    }

    /// Returns the agent of a plant.
    pub fn of_plant(&self, plant: &str) -> &str {
        self.plants.get(plant).unwrap_or(&self.default)
    }
}

/// Share of a plan that one agent runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Plan of the parts that the agent runs. It has no checks and panels, because these concern
    /// the whole experiment.
    pub plan: Plan,
    /// The agent's ends of links to other agents.
    pub tunnels: Vec<TunnelEnd>,
}

/// Agent's end of a link to another agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// Index of the link in the whole plan.
    pub link: usize,
    /// Node at this end.
    pub node: String,
    /// Node at the opposite end.
    pub peer: String,
    /// Agent of the node at the opposite end.
    pub agent: String,
    /// Bit rate of each direction; `None` is unlimited.
    pub rate: Option<BitRate>,
}

impl Plan {
    /// Returns true if the agents act in turns, since their clocks move only from event to event.
    pub fn takes_turns(&self) -> bool {
        self.placement.is_spread() && self.time.compute == Compute::None
    }

    /// Returns the share of the plan that `agent` runs.
    pub fn part(&self, agent: &str) -> Part {
        let placement = &self.placement;
        let mut plan = self.clone();
        let mine = |node: &str| placement.of_node(node) == agent;
        plan.system.hosts.retain(|name, _| mine(name));
        plan.system.devices.retain(|name, _| mine(name));
        plan.system.switches.retain(|name| mine(name));
        plan.system
            .links
            .retain(|link| link.between.iter().all(|node| mine(node)));
        let here = |plant: &str| placement.of_plant(plant) == agent;
        plan.simulation.plants.retain(|name, _| here(name));
        plan.attacks.retain(|attack| mine(&attack.host));
        // A link between two agents is captured by the agent of its first node.
        plan.captures.retain(
            |capture| match (&capture.link, self.link_of(&capture.link)) {
                (LinkName::Ends([first, _]), _) => mine(first),
                (LinkName::Named(_), Some(link)) => mine(&link.between[0]),
                // Frames on a generated link are captured by the engine that simulates it.
                (LinkName::Named(_), None) => true,
            },
        );
        // An attack, and a link of the kernel, change at the agent that has them. All engines of a
        // simulated network know its changes.
        plan.events.retain(|event| {
            let link = event.link.as_ref().and_then(|link| self.link_of(link));
            let attack = event.attack.as_ref();
            match attack.and_then(|id| self.attacks.iter().find(|it| it.id == *id)) {
                Some(attack) => mine(&attack.host),
                None if self.network.is_some() => true,
                None => link.is_some_and(|link| link.between.iter().all(|node| mine(node))),
            }
        });
        plan.checks.clear();
        plan.panels.clear();
        let ends = self.system.links.iter().enumerate();
        // In a simulated network, the engines carry frames between agents, so no link needs a
        // tunnel.
        let ends = ends.filter(|_| self.network.is_none());
        let tunnels = ends.filter_map(|(number, link)| tunnel(number, link, mine, self));
        Part {
            tunnels: tunnels.collect(),
            plan,
        }
    }
}

fn tunnel(
    number: usize,
    link: &Link,
    mine: impl Fn(&str) -> bool,
    whole: &Plan,
) -> Option<TunnelEnd> {
    let [a, b] = &link.between;
    let (node, peer) = match (mine(a), mine(b)) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        _ => return None,
    };
    Some(TunnelEnd {
        link: number,
        node: node.clone(),
        peer: peer.clone(),
        agent: whole.placement.of_node(peer).to_owned(),
        rate: link.wire.rate,
    })
}
