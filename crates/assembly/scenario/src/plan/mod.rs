//! The checked plan: what a scenario file says, typed and with every default
//! filled in. It holds no positions in the file and no wishes of this machine;
//! who runs it needs nothing else, and may trust every rule that
//! [`crate::parse`] checks.

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

/// The version of the file format that this crate reads and writes.
pub const SCHEMA: &str = "timeloom/1";

/// A whole experiment. *System* says what is modelled, *simulation* who
/// computes which part, *placement* where it runs; the rest says what happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, title = "Timeloom scenario")]
pub struct Plan {
    /// The version of this format: `timeloom/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// A short name of the experiment: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Where all randomness of the run comes from; 0 … 2^63 - 1.
    #[schemars(default)]
    pub seed: u64,
    /// The one clock of the experiment.
    pub time: Time,
    /// What is modelled.
    #[schemars(default)]
    pub system: System,
    /// How the network is simulated; without it, it is made of kernel parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Who computes which part.
    #[schemars(default)]
    pub simulation: Simulation,
    /// Where things run.
    #[schemars(default)]
    pub placement: Placement,
    /// How large the results may become.
    #[schemars(default)]
    pub results: Results,
    /// What an adversary does, and when.
    #[serde(rename = "attack", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub attacks: Vec<Attack>,
    /// Which links are recorded, packet by packet.
    #[serde(rename = "capture", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub captures: Vec<Capture>,
    /// What must hold at the end for the run to count as passed.
    #[serde(rename = "check", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub checks: Vec<Check>,
    /// What the report draws; without any, it draws what was recorded.
    #[serde(rename = "panel", skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub panels: Vec<Panel>,
}

impl Plan {
    /// The scenario as checked: every default filled in, directories absolute,
    /// overrides applied. [`crate::parse`] reads it back to an equal plan.
    ///
    /// # Panics
    ///
    /// On a plan that no file can say, put together by hand: a seed of 2^63 or
    /// more, a null in a plant's `config`, a directory that is not UTF-8.
    pub fn to_toml(&self) -> String {
        // Strings, numbers below 2^63, finite floats and JSON without null:
        // the checks leave nothing that TOML cannot say.
        toml::to_string(self).expect("a checked plan is always expressible in TOML")
    }

    /// All programs with the host each runs on: first the hosts' own, by host
    /// name, then the controller of OpenFlow switches, whose host is
    /// [`OpenFlow::HOST`], then those of enabled attacks in the order of the file.
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

    /// The link that a capture records.
    pub fn link_of(&self, capture: &Capture) -> Option<&Link> {
        self.system.links.iter().find(|link| capture.link.is(link))
    }

    /// Whether a check applies to this plan, given which attacks are enabled.
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

/// Named parts, in the order of their names so that no result depends on the
/// order of the file.
pub type Named<T> = BTreeMap<String, T>;
