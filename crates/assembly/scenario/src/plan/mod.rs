//! Checked plan: the content of a scenario file, typed, with every default filled in. It contains
//! neither positions in the file nor anything that depends on this machine. Code that runs a plan
//! needs nothing else, and may rely on every rule that [`crate::parse`] checks.

mod changes;
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

pub use changes::{AttackAction, Event, LinkState, WireChange};
pub use clock::{CARD_SIGNALS, CLOCK_SIGNALS, ClockSpec, Cycles, Temperature};
pub use container::{ContainerMount, ContainerSpec};
pub use engines::{EngineFailure, EngineMode, Engines};
pub use events::{Attack, Capture, Check, Condition, LinkName};
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

use crate::table::{Only, table};

/// Version of the file format that this crate reads and writes.
pub const SCHEMA: &str = "timeloom/1";

table! {
/// Whole experiment. *System* describes the modelled network and its hosts, *simulation* the
/// simulators of its plants, and *placement* the agents that run its parts. The other tables
/// describe events of the run.
#[noun = "a scenario"]
#[schema = "Timeloom scenario"]
pub struct Plan {
    /// Version of the file format: `timeloom/1`.
    #[within(Only(SCHEMA))]
    pub schema: String,
    /// Short name of the experiment, of letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Seed for all randomness in the run, from 0 to 2^63 - 1.
    pub seed: u64 = 0,
    /// Clock of the experiment.
    pub time: Time,
    /// Modelled system: the network and its hosts.
    pub system: System = System::default(),
    /// Simulation of the network. If left out, the network consists of kernel objects.
    pub network: Option<Network>,
    /// Simulators of plants.
    pub simulation: Simulation = Simulation::default(),
    /// Agents that run the parts of the experiment.
    pub placement: Placement = Placement::default(),
    /// Size limits of the results.
    pub results: Results = Results::default(),
    /// Attacks during the run.
    #[key = "attack"]
    #[omit_if(Vec::is_empty)]
    pub attacks: Vec<Attack> = Vec::new(),
    /// Changes of the experiment while it runs.
    #[key = "event"]
    #[omit_if(Vec::is_empty)]
    pub events: Vec<Event> = Vec::new(),
    /// Packet captures on links.
    #[key = "capture"]
    #[omit_if(Vec::is_empty)]
    pub captures: Vec<Capture> = Vec::new(),
    /// Assertions about the recorded signals that must hold for the run to pass.
    #[key = "check"]
    #[omit_if(Vec::is_empty)]
    pub checks: Vec<Check> = Vec::new(),
    /// Diagrams of the report. If left out, the report draws all recorded signals.
    #[key = "panel"]
    #[omit_if(Vec::is_empty)]
    pub panels: Vec<Panel> = Vec::new(),
}
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

    /// Returns the link of the plan that has this name; `None` if the link is generated.
    pub fn link_of(&self, name: &LinkName) -> Option<&Link> {
        self.system.links.iter().find(|link| name.is(link))
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

/// Parts by name. They are sorted, so that results do not depend on the order of the file.
pub type Named<T> = BTreeMap<String, T>;
