//! The `[placement]` table: assigns the parts of an experiment to agents, and extracts an agent's
//! share of a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{CapturedLink, Link, Named, Plan};
use crate::read::{Fields, Read};
use crate::words::{self, BitRate};

/// Assignment of parts to agents. Without agents, everything runs on the machine on which the run
/// is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Placement {
    /// Place of all parts that are not assigned otherwise: an agent, or `local`, the default.
    #[schemars(default = "local")]
    pub default: String,
    /// Agents (`timeloom agent --serve`), by name.
    #[schemars(default)]
    pub agents: Named<AgentPlace>,
    /// File with the key shared by this run and its agents. In a file relative to the scenario
    /// file; in a plan absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Agents of hosts, devices and switches.
    #[schemars(default)]
    pub nodes: BTreeMap<String, String>,
    /// Agents of plants.
    #[schemars(default)]
    pub plants: BTreeMap<String, String>,
    /// Additional files, not named elsewhere in the scenario, that are copied to all agents;
    /// directories are copied with their contents.
    #[schemars(default)]
    pub files: Vec<PathBuf>,
    /// Virtual time between the request for a pause and the pause. If left out, the shortest time
    /// that message delays allow.
    #[serde(
        serialize_with = "words::as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub look_ahead: Option<Duration>,
    /// IPv4 multicast group and port, as in `239.1.2.3:5501`, at which agents send news to all
    /// others at once; if left out, they send to each agent separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Longest time, in wall time, for which the level of the wire may differ from that driven by
    /// the agents with `gpio`. After it, the wire counts as stuck and the run is stopped.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "gpio_stuck", with = "words::DurationText")]
    pub gpio_stuck: Duration,
    /// Debounce time: edges on the wire within this time after another edge are ignored.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "gpio_debounce", with = "words::DurationText")]
    pub gpio_debounce: Duration,
    /// Longest time, in wall time, without a message from an agent before the run is stopped.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "patience", with = "words::DurationText")]
    pub patience: Duration,
}

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AgentPlace {
    /// Address that it listens on: IP address and port, as in `10.0.0.1:5500`.
    pub address: String,
    /// Pins on the wire shared by the machines: chip, output, input for rising and input for
    /// falling edges, as in `gpiochip0:17,27,22`. The wire carries the level, the network the
    /// times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpio: Option<String>,
}

fn local() -> String {
    Placement::LOCAL.to_owned()
}

fn patience() -> Duration {
    Duration::from_ms(800)
}

fn gpio_stuck() -> Duration {
    Duration::from_s(1)
}

fn gpio_debounce() -> Duration {
    Duration::from_us(20)
}

impl Placement {
    /// Name of the machine on which the run is started.
    pub const LOCAL: &str = "local";

    /// Returns true if parts run on agents.
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

impl Default for Placement {
    fn default() -> Self {
        Self {
            default: local(),
            agents: Named::new(),
            key_file: None,
            nodes: BTreeMap::new(),
            plants: BTreeMap::new(),
            files: Vec::new(),
            look_ahead: None,
            group: None,
            gpio_stuck: gpio_stuck(),
            gpio_debounce: gpio_debounce(),
            patience: patience(),
        }
    }
}

impl Read for Placement {
    const NOUN: &'static str = "[placement]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            default: fields.or("default", local()),
            agents: fields.or_default("agents"),
            key_file: fields.path("key_file"),
            nodes: fields.or_default("nodes"),
            plants: fields.or_default("plants"),
            files: fields.paths("files"),
            look_ahead: fields.optional("look_ahead"),
            group: fields.optional("group"),
            gpio_stuck: fields.or("gpio_stuck", gpio_stuck()),
            gpio_debounce: fields.or("gpio_debounce", gpio_debounce()),
            patience: fields.or("patience", patience()),
        }
    }
}

impl Read for AgentPlace {
    const NOUN: &'static str = "an agent";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            address: fields.required("address"),
            gpio: fields.optional("gpio"),
        }
    }
}

/// An agent's share of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Parts that the agent runs by itself. Checks and panels are left out, because they concern
    /// the whole experiment.
    pub plan: Plan,
    /// The agent's ends of links to other agents.
    pub tunnels: Vec<TunnelEnd>,
}

/// This agent's end of a link to another agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// Index of the link in the whole plan.
    pub link: usize,
    /// Node at this end.
    pub node: String,
    /// Node at the other end.
    pub peer: String,
    /// Agent of the other end.
    pub agent: String,
    /// Bit rate of each direction; unlimited if absent.
    pub rate: Option<BitRate>,
}

impl Plan {
    /// Returns the share of `agent`.
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
        // A link between two agents is recorded by the agent of its first node.
        plan.captures
            .retain(|capture| match (&capture.link, self.link_of(capture)) {
                (CapturedLink::Ends([first, _]), _) => mine(first),
                (CapturedLink::Named(_), Some(link)) => mine(&link.between[0]),
                // The engine of a generated link has its frames.
                (CapturedLink::Named(_), None) => true,
            });
        plan.checks.clear();
        plan.panels.clear();
        let ends = self.system.links.iter().enumerate();
        // The links of a simulated network between agents are handled by its engines.
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
