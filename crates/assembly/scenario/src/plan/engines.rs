//! Table `[network.engines]`: several engines for one simulated network.

use std::ops::RangeInclusive;

use timeloom_time::Duration;

use crate::plan::Named;
use crate::table::{table, words};

table! {
/// Division of the simulated network into parts, each of which is simulated by an engine: a thread
/// or a process. Exactly one of `count` and `parts` is given.
#[noun = "the engines of a network"]
pub struct Engines {
    /// Number of engines. The network is divided automatically; `timeloom check` shows the result.
    #[within(1..=Self::MOST)]
    pub count: Option<u16>,
    /// Nodes of each engine, by its name. `NAME*` matches all nodes whose names begin with NAME. A
    /// node that is not listed belongs to the engine of the nearest listed node.
    #[omit_if(Named::is_empty)]
    pub parts: Named<Vec<String>> = Named::new(),
    /// Synchronisation of the engines.
    pub mode: EngineMode = EngineMode::default(),
    /// Lateness from which on a packet from another engine counts as late.
    pub late_after: Duration = Duration::from_ms(1),
    /// Share of late packets from which on the results count as not trustworthy.
    #[within(Self::LATE_SHARES)]
    pub late_share: f64 = 0.0005,
    /// Reaction of the run to the death of an engine.
    pub failure: EngineFailure = EngineFailure::default(),
    /// Runs each engine as a process. The engines then exchange packets by datagrams.
    pub processes: bool = false,
    /// Encrypts the datagrams between engines, which are always authenticated.
    pub encrypt: bool = false,
}
}

words! {
/// Synchronisation between engines.
pub enum EngineMode {
    /// Engines do not wait for each other. A late packet is handled at once, and counted.
    Free = "free",
    /// No engine advances beyond the time that the others have promised, so no packet is late.
    Exact = "exact",
}
}

words! {
/// Reaction of a run to the death of an engine.
pub enum EngineFailure {
    /// The run fails and names the engine.
    Stop = "stop",
    /// The run continues without that part of the network, and its results count as not
    /// trustworthy.
    Continue = "continue",
    /// A new process replaces the engine and joins the others; the results count as not
    /// trustworthy.
    Restart = "restart",
}
}

impl Engines {
    /// Maximum number of engines of a network.
    pub(crate) const MOST: u16 = 64;

    /// Permitted shares of late packets.
    pub(crate) const LATE_SHARES: RangeInclusive<f64> = 0.0..=1.0;

    /// Returns the names of the engines, in order.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            Some(count) => (0..count).map(|number| format!("engine{number}")).collect(),
            None => self.parts.keys().cloned().collect(),
        }
    }

    /// Returns the number of late packets per million that the run tolerates.
    pub fn late_ppm(&self) -> u32 {
        (self.late_share.clamp(0.0, 1.0) * 1e6).round() as u32
    }
}
