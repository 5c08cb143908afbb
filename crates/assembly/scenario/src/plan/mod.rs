//! Checked plan: the content of a scenario file, typed, with every default filled in. It contains
//! neither positions in the file nor anything that depends on this machine. Code that runs a plan
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

pub use clock::{CLOCK_SIGNALS, ClockSpec, Cycles, Temperature};
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
    PTP_SIGNALS, Ptp, PtpAttack, PtpClock, PtpPolicy, PtpProfile, PtpRogue, PtpSecurity,
};
pub use results::Results;
pub use served::{Service, ServiceKind, ServingHost};
pub use simulation::{Plant, Record, Simulation};
pub use system::{Device, Host, Link, Program, Protocol, Register, System};
pub use time::{Mode, Stepping, Time};
pub use timeline::{TIMELINE_SIGNALS, TimelineSpec};

use crate::read::{Fields, Read};

/// Version of the file format that this crate reads and writes.
pub const SCHEMA: &str = "timeloom/1";

/// Whole experiment. *System* describes the modelled network and its hosts, *simulation* the
/// simulators of its plants, and *placement* the agents that run its parts. The other tables
/// describe events of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, title = "Timeloom scenario")]
pub struct Plan {
    /// Version of the file format: `timeloom/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Short name of the experiment, of letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Seed for all randomness in the run, from 0 to 2^63 - 1.
    #[schemars(default)]
    pub seed: u64,
    /// Clock of the experiment.
    pub time: Time,
    /// Modelled system: the network and its hosts.
    #[schemars(default)]
    pub system: System,
    /// Simulation of the network. If left out, the network consists of kernel objects.
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
    /// Attacks during the run.
    #[serde(rename = "attack", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub attacks: Vec<Attack>,
    /// Packet captures on links.
    #[serde(rename = "capture", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub captures: Vec<Capture>,
    /// Assertions about the recorded signals that must hold for the run to pass.
    #[serde(rename = "check", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub checks: Vec<Check>,
    /// Diagrams of the report. If left out, the report draws all recorded signals.
    #[serde(rename = "panel", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub panels: Vec<Panel>,
}

impl Plan {
    /// Returns the checked scenario as text: every default filled in, directories absolute, and
    /// overrides applied. [`crate::parse`] converts the text back to an equal plan.
    ///
    /// # Panics
    ///
    /// Panics if a plan was built by hand and cannot be written as TOML: because of a seed of 2^63
    /// or more, a null in a plant's `config`, or a directory that is not UTF-8.
    pub fn to_toml(&self) -> String {
        // A checked plan contains only strings, numbers below 2^63, finite floats and JSON without
        // null, all of which TOML can express.
        toml::to_string(self).expect("a checked plan is always expressible in TOML")
    }

    /// Returns all programs with the names of their hosts. The hosts' own programs come first, by
    /// host name. Then follow the controller of OpenFlow switches, whose host is
    /// [`OpenFlow::HOST`], and the programs of enabled attacks, in file order.
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

    /// Returns the link of the plan that a capture records; `None` if the link is generated.
    pub fn link_of(&self, capture: &Capture) -> Option<&Link> {
        self.system.links.iter().find(|link| capture.link.is(link))
    }

    /// Returns true if a check applies, which depends on the enabled attacks.
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

/// Parts by name. They are sorted, so that results do not depend on the order of the file.
pub type Named<T> = BTreeMap<String, T>;
