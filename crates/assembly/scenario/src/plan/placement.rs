//! The `[placement]` table: which agent runs which part of an experiment, and what of a
//! plan is one agent's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::{CapturedLink, Link, Named, Plan};
use crate::read::{Fields, Read};
use crate::words::{self, BitRate};

/// Where things run. Without agents, all on the machine on which the run is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Placement {
    /// Where all that is not placed elsewhere runs: an agent, or `local`, which is
    /// everything where there are no agents.
    #[schemars(default = "local")]
    pub default: String,
    /// The agents (`timeloom agent --serve`), by name.
    #[schemars(default)]
    pub agents: Named<AgentPlace>,
    /// The file with the key that this run and its agents share. In a file relative to
    /// the scenario file; in a plan absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The agents of hosts, devices and switches.
    #[schemars(default)]
    pub nodes: BTreeMap<String, String>,
    /// The agents of plants.
    #[schemars(default)]
    pub plants: BTreeMap<String, String>,
    /// Files that no word of the scenario names and that all agents get; of a directory
    /// all that is in it.
    #[schemars(default)]
    pub files: Vec<PathBuf>,
    /// Pauses lie this much virtual time after their request; as near as messages allow
    /// when it is left out.
    #[serde(
        serialize_with = "words::as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub look_ahead: Option<Duration>,
    /// Agents say what is new to all at once, at this group of IPv4; one by one without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// For how long, in wall time, the wire of agents with `gpio` may be other than they drive
    /// it, before it counts as stuck and the run is stopped.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "gpio_stuck", with = "words::DurationText")]
    pub gpio_stuck: Duration,
    /// Edges of that wire that follow another within this span are bounce.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "gpio_debounce", with = "words::DurationText")]
    pub gpio_debounce: Duration,
    /// For how long, in wall time, an agent may say nothing before the run is stopped.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "patience", with = "words::DurationText")]
    pub patience: Duration,
}

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AgentPlace {
    /// Where it listens: an IP address and a port, as in `10.0.0.1:5500`.
    pub address: String,
    /// Its pins on the wire that the machines share: chip, output, input for rising and input
    /// for falling edges, as in `gpiochip0:17,27,22`. The wire carries the level, the network
    /// the instants.
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
    /// The machine on which the run is started.
    pub const LOCAL: &str = "local";

    /// Whether parts run elsewhere.
    pub fn is_spread(&self) -> bool {
        !self.agents.is_empty()
    }

    /// The agent of a host, device or switch.
    pub fn of_node(&self, node: &str) -> &str {
        self.nodes.get(node).unwrap_or(&self.default)
    }

    /// The agent of a plant.
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

/// One agent's share of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it runs by itself: no checks and no panels, which are of the whole.
    pub plan: Plan,
    /// Its ends of the links that lead to other agents.
    pub tunnels: Vec<TunnelEnd>,
}

/// This agent's end of a link to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// The link's number among those of the whole plan.
    pub link: usize,
    /// The node at this end.
    pub node: String,
    /// The node at the other.
    pub peer: String,
    /// The agent that has it.
    pub agent: String,
    /// How fast each direction sends; as fast as the machines can without.
    pub rate: Option<BitRate>,
}

impl Plan {
    /// The share of `agent`.
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
        // A link between two agents is recorded where its first node is.
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
        // Those of a model are its engines'.
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
