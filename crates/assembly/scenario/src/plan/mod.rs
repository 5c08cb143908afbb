//! The checked plan: the contents of a scenario file, typed and with every default filled in. It
//! holds no positions in the file and nothing that depends on this machine. Code that runs a plan
//! needs nothing else, and may rely on every rule that [`crate::parse`] checks.

mod clock;
mod container;
mod engines;
mod events;
mod machine;
mod medium;
mod network;
mod openflow;
mod panels;
mod placement;
mod ptp;
mod results;
mod served;
mod simulation;
mod summary;
mod system;
mod time;
mod timeline;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

pub use clock::{CLOCK_SIGNALS, ClockSpec, Cycles, GovernorPolicy, Temperature};
pub use container::{ContainerMount, ContainerSpec};
pub use engines::{EngineFailure, EngineMode, Engines};
pub use events::{Attack, Capture, CapturedLink, Check, Condition};
pub use machine::{MachineProfile, MachineSpec};
pub use medium::Medium;
pub use network::{Discipline, Generate, Network, Shape, Traffic, TrafficKind, TrafficModel, Wire};
pub use openflow::OpenFlow;
pub use panels::{Panel, PanelSignal, Reference};
pub use placement::{AgentPlace, Part, Placement, TunnelEnd};
pub use ptp::{
    PTP_SIGNALS, Ptp, PtpAttack, PtpClock, PtpPolicy, PtpProfile, PtpRogue, PtpRole, PtpSecurity,
    PtpTransport,
};
pub use results::Results;
pub use served::{Service, ServiceKind, ServingHost};
pub use simulation::{Plant, Record, Simulation};
pub use system::{
    Device, Host, Link, Program, Protocol, Register, RegisterTable, RegisterType, System,
};
pub use time::{Compute, FileTimes, Mode, Proc, Stepping, Time, Tsc};
pub use timeline::{TIMELINE_SIGNALS, TimelineScale, TimelineSpec};

use crate::read::{Fields, Read};

/// Version of the file format that this crate reads and writes.
pub const SCHEMA: &str = "timeloom/1";

/// A whole experiment. *System* describes the modelled network and its hosts, *simulation* the
/// simulators of its plants, *placement* the agents that run its parts; the other tables describe
/// the events of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, title = "Timeloom scenario")]
pub struct Plan {
    /// Version of the file format: `timeloom/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Short name of the experiment: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Seed of all randomness in the run; 0 … 2^63 - 1.
    #[schemars(default)]
    pub seed: u64,
    /// The clock of the experiment.
    pub time: Time,
    /// The modelled system.
    #[schemars(default)]
    pub system: System,
    /// Simulation of the network; without it, the network is made of kernel objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Simulators of plants.
    #[schemars(default)]
    pub simulation: Simulation,
    /// Agents that run the parts of the experiment.
    #[schemars(default)]
    pub placement: Placement,
    /// Size limits of the results.
    #[schemars(default)]
    pub results: Results,
    /// Attacks.
    #[serde(rename = "attack", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub attacks: Vec<Attack>,
    /// Packet captures on links.
    #[serde(rename = "capture", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub captures: Vec<Capture>,
    /// Assertions that must hold at the end for the run to pass.
    #[serde(rename = "check", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub checks: Vec<Check>,
    /// Diagrams of the report; without any, it draws all recorded signals.
    #[serde(rename = "panel", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub panels: Vec<Panel>,
}

impl Plan {
    /// Returns the scenario as checked: every default filled in, directories absolute, overrides
    /// applied. [`crate::parse`] reads it back to an equal plan.
    ///
    /// # Panics
    ///
    /// Panics if the plan was built by hand and cannot be written as TOML: a seed of 2^63 or more,
    /// a null in a plant's `config`, a directory that is not UTF-8.
    pub fn to_toml(&self) -> String {
        // Strings, numbers below 2^63, finite floats and JSON without null: a checked plan contains
        // nothing that TOML cannot express.
        toml::to_string(self).expect("a checked plan is always expressible in TOML")
    }

    /// Returns all programs with their hosts: first the hosts' own, by host name, then the
    /// controller of OpenFlow switches, whose host is [`OpenFlow::HOST`], then those of enabled
    /// attacks in file order.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &Program)> {
        let own = self.system.hosts.iter().flat_map(|(name, host)| {
            host.programs
                .iter()
                .map(move |program| (name.as_str(), program))
        });
        let hostile = self
            .attacks
            .iter()
            .filter(|attack| attack.enabled)
            .flat_map(|attack| {
                attack
                    .programs
                    .iter()
                    .map(move |program| (attack.host.as_str(), program))
            });
        let controller = (self.system.openflow.as_ref())
            .and_then(|openflow| openflow.controller.as_ref())
            .map(|program| (OpenFlow::HOST, program));
        own.chain(controller).chain(hostile)
    }

    /// Returns the link that a capture records.
    pub fn link_of(&self, capture: &Capture) -> Option<&Link> {
        self.system.links.iter().find(|link| capture.link.is(link))
    }

    /// Returns true if a check applies to this plan, given the enabled attacks.
    pub fn applies(&self, check: &Check) -> bool {
        let enabled = |id: &str| {
            self.attacks
                .iter()
                .any(|attack| attack.id == id && attack.enabled)
        };
        match &check.when {
            None => true,
            Some(Condition::With(id)) => enabled(id),
            Some(Condition::Without(id)) => !enabled(id),
        }
    }
}

impl Read for Plan {
    const NOUN: &'static str = "a scenario";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            schema: fields.required("schema"),
            name: fields.required("name"),
            seed: fields.or("seed", 0),
            time: fields.required("time"),
            system: fields.or_default("system"),
            network: fields.optional("network"),
            simulation: fields.or_default("simulation"),
            placement: fields.or_default("placement"),
            results: fields.or_default("results"),
            attacks: fields.or_default("attack"),
            captures: fields.or_default("capture"),
            checks: fields.or_default("check"),
            panels: fields.or_default("panel"),
        }
    }
}

/// Named parts, sorted by name, so that results do not depend on the order of the file.
pub type Named<T> = BTreeMap<String, T>;
