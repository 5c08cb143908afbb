//! Table `[placement]`, which assigns the parts of an experiment to agents; and the share of a plan
//! that one agent runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{CapturedLink, Link, Named, Plan};
use crate::read::{Fields, Read};
use crate::words::{self, BitRate};

/// Assignment of parts to agents. Without agents, everything runs on the machine that starts the
/// run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Placement {
    /// Agent of all parts that are not listed below, or `local`, which is the default.
    #[schemars(default = "local")]
    pub default: String,
    /// Agents (`timeloom agent --serve`), by name.
    #[schemars(default)]
    pub agents: Named<AgentPlace>,
    /// File with the key that this run and its agents share. In a file the path is relative to the
    /// scenario file; in a plan it is absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Agents of hosts, devices and switches, by the names of these.
    #[schemars(default)]
    pub nodes: BTreeMap<String, String>,
    /// Agents of plants, by the names of the plants.
    #[schemars(default)]
    pub plants: BTreeMap<String, String>,
    /// Files that are copied to all agents in addition to those named elsewhere in the scenario. Of
    /// a directory, the whole content is copied.
    #[schemars(default)]
    pub files: Vec<PathBuf>,
    /// Virtual time from the request for a pause to the pause itself. If left out, the shortest
    /// time that message delays permit.
    #[serde(
        serialize_with = "words::as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub look_ahead: Option<Duration>,
    /// IPv4 multicast group and port, such as `239.1.2.3:5501`, at which an agent sends a message
    /// to all others at once. If left out, each agent sends a message to each other agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Maximum wall time for which the level of the wire may differ from the level that the agents
    /// with `gpio` drive. The wire then counts as stuck, and the run is stopped.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "gpio_stuck", with = "words::DurationText")]
    pub gpio_stuck: Duration,
    /// Debounce time: an edge on the wire within this time after another edge is ignored.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "gpio_debounce", with = "words::DurationText")]
    pub gpio_debounce: Duration,
    /// Maximum wall time without a message from an agent. The run is then stopped.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "patience", with = "words::DurationText")]
    pub patience: Duration,
}

/// Agent that runs parts of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AgentPlace {
    /// Address at which the agent listens: IP address and port, such as `10.0.0.1:5500`.
    pub address: String,
    /// Pins on the wire that the machines share: chip, output, input for rising edges, and input
    /// for falling edges, such as `gpiochip0:17,27,22`. The wire carries the level of the pause
    /// bus, and the network carries the instants.
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
        plan.captures
            .retain(|capture| match (&capture.link, self.link_of(capture)) {
                (CapturedLink::Ends([first, _]), _) => mine(first),
                (CapturedLink::Named(_), Some(link)) => mine(&link.between[0]),
                // Frames on a generated link are captured by the engine that simulates it.
                (CapturedLink::Named(_), None) => true,
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
