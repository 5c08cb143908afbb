//! Messages between a run and an agent, as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use timeloom_results::Failure;

use super::describe::Description;
use super::serve::WhichTimeline;

/// Message to an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToAgent {
    /// Requests the agent's description. No message follows.
    Describe,
    /// The run and its files; the content of the files follows.
    Prepare(Box<Prepare>),
    /// All agents are prepared; contains their addresses.
    Begin { members: Vec<Whereabouts> },
    /// A program of another agent is ready.
    Ready { program: String },
    /// Stop the run.
    Stop,
    /// All results have arrived: no agent needs the others any more.
    Done,
}

/// Data that an agent needs about a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prepare {
    /// Name of the agent in the run.
    pub(super) agent: String,
    /// Number from which the run's keys are derived, in hexadecimal.
    pub(super) nonce: String,
    /// The whole plan.
    pub(super) plan: String,
    /// Files, in the order in which their content follows.
    pub(super) files: Vec<Entry>,
}

/// A file whose content follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Path below the receiver's directory for files.
    pub(super) name: String,
    /// Length.
    pub(super) bytes: u64,
    /// True if the file is executable.
    pub(super) executable: bool,
}

/// Addresses at which other agents reach an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Whereabouts {
    pub(super) name: String,
    pub(super) bus: SocketAddr,
    pub(super) tunnels: SocketAddr,
    /// Address of its engine, by the other agent.
    pub(super) engines: BTreeMap<String, SocketAddr>,
    /// Error bound of its clock.
    pub(super) clock_error_ns: i64,
}

/// Message from an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromAgent {
    /// Description of the agent.
    Described(Box<Description>),
    /// The agent has everything that it needs, and listens at these ports.
    Prepared {
        bus: u16,
        tunnels: u16,
        /// Ports of its engine, by the other agent, if the network is simulated.
        engines: BTreeMap<String, u16>,
        timeline: WhichTimeline,
        /// Error bound of the agent's clock.
        clock_error_ns: i64,
    },
    /// The agent cannot run its share, for this reason.
    Refused { why: String },
    /// Progress of the share.
    Progress(Lengths),
    /// Message for the user.
    Warning { text: String },
    /// A program of the agent is ready.
    Ready { program: String },
    /// The share has ended; the files of the results follow.
    Ended(Box<Ended>),
}

/// Progress of a run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lengths {
    pub(super) virtual_ns: i64,
    pub(super) wall_ns: i64,
    pub(super) paused_ns: i64,
}

/// Result of a share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) lengths: Lengths,
    /// Descriptions of calls that were not virtualised.
    pub(super) unhandled: Vec<String>,
    /// Files of its run directory; empty if there is none.
    pub(super) results: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum How {
    Reached,
    Interrupted,
    Failed(Failure),
    /// The share did not start, for this reason.
    NotBegun(String),
}
