//! Messages between a run and an agent, as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use timeloom_results::RunFailure;

use super::describe::Description;
use super::serve::AgentTimeline;

/// Message to an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToAgent {
    /// Requests the agent's description. No message follows.
    Describe,
    /// Assigns the agent its share of a run. The content of the announced files follows.
    Prepare(Box<Prepare>),
    /// Announces that all agents are prepared, with the addresses of all of them.
    Begin { members: Vec<AgentEndpoints> },
    /// Announces that a program of another agent is ready.
    Ready { program: String },
    /// Requests that the agent end its share.
    Stop,
    /// Announces that all results have arrived, so that no agent needs the others any more.
    Done,
}

/// Data that an agent needs about a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prepare {
    /// Name of the agent in the run.
    pub(super) agent: String,
    /// Random number from which the run's keys are derived, in hexadecimal.
    pub(super) nonce: String,
    /// The whole plan.
    pub(super) plan: String,
    /// Files, in the order in which their content follows.
    pub(super) files: Vec<Entry>,
}

/// A file whose content follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Relative path of the file in the directory in which the receiver stores files.
    pub(super) name: String,
    /// Length of the file, in bytes.
    pub(super) bytes: u64,
    /// True if the file is executable.
    pub(super) executable: bool,
}

/// Addresses at which other agents reach one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentEndpoints {
    pub(super) name: String,
    pub(super) bus: SocketAddr,
    pub(super) tunnels: SocketAddr,
    /// Address at which the agent accepts streams, if the agents act in turns.
    pub(super) turns: Option<SocketAddr>,
    /// Addresses of the sockets of the agent's engine; the keys are the names of the agents that
    /// use them.
    pub(super) engines: BTreeMap<String, SocketAddr>,
    /// Error bound of the agent's clock, in nanoseconds.
    pub(super) clock_error_ns: i64,
}

/// Message from an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromAgent {
    /// Description of the agent.
    Described(Box<Description>),
    /// Announces that the agent has everything that it needs, and listens at these ports.
    Prepared {
        bus: u16,
        tunnels: u16,
        /// Port for streams of the other agents, if the agents act in turns.
        turns: Option<u16>,
        /// Ports of the engine's sockets, if the network is simulated; the keys are the names of
        /// the agents that use them.
        engines: BTreeMap<String, u16>,
        timeline: AgentTimeline,
        /// Error bound of the agent's clock, in nanoseconds.
        clock_error_ns: i64,
    },
    /// Announces that the agent cannot run its share, with the reason.
    Refused { why: String },
    /// Progress of the share.
    Progress(Lengths),
    /// Message for the user.
    Warning { text: String },
    /// Announces that a program of this agent is ready.
    Ready { program: String },
    /// Announces that the share has ended. The content of the result files follows.
    Ended(Box<ShareResult>),
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
pub(super) struct ShareResult {
    pub(super) how: ShareEnd,
    pub(super) lengths: Lengths,
    /// Descriptions of system calls that carried time and were not virtualised.
    pub(super) unhandled: Vec<String>,
    /// Files of the agent's run directory; empty if the agent has none.
    pub(super) results: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ShareEnd {
    Reached,
    Interrupted,
    Failed(RunFailure),
    /// The share did not start; the text gives the reason.
    NotBegun(String),
}
