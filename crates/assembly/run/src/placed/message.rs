//! What a run and an agent say to each other, as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use timeloom_results::Failure;

use super::describe::Description;
use super::serve::WhichTimeline;

/// To an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToAgent {
    /// What are you, and what can you do? Nothing follows.
    Describe,
    /// The run, and the files that follow.
    Prepare(Box<Prepare>),
    /// All agents are prepared: this is where they are.
    Begin { members: Vec<Whereabouts> },
    /// A program of another agent is ready.
    Ready { program: String },
    /// Stop the run.
    Stop,
    /// All results are here: no agent needs the others any more.
    Done,
}

/// What an agent needs to know of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prepare {
    /// What the run calls this agent.
    pub(super) agent: String,
    /// The number from which the run's keys are derived, in hexadecimal.
    pub(super) nonce: String,
    /// The whole plan.
    pub(super) plan: String,
    /// The files, in the order in which their content follows.
    pub(super) files: Vec<Entry>,
}

/// A file whose content follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Its path below where the receiver puts files.
    pub(super) name: String,
    /// Its length.
    pub(super) bytes: u64,
    /// Whether it can be run.
    pub(super) executable: bool,
}

/// Where the others find an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Whereabouts {
    pub(super) name: String,
    pub(super) bus: SocketAddr,
    pub(super) tunnels: SocketAddr,
    /// Its engine, for each other agent's.
    pub(super) engines: BTreeMap<String, SocketAddr>,
    /// How wrong its clock may be.
    pub(super) clock_error_ns: i64,
}

/// From an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromAgent {
    /// What it is and can do.
    Described(Box<Description>),
    /// It has everything that it needs, and listens at these ports.
    Prepared {
        bus: u16,
        tunnels: u16,
        /// Of its engine, where the network is simulated: for each other agent's.
        engines: BTreeMap<String, u16>,
        timeline: WhichTimeline,
        /// How wrong that may be there.
        clock_error_ns: i64,
    },
    /// It cannot run it, in words.
    Refused { why: String },
    /// How far it is.
    Progress(Lengths),
    /// Something for the user.
    Warning { text: String },
    /// One of its programs is ready.
    Ready { program: String },
    /// Its run has ended; the files of the results follow.
    Ended(Box<Ended>),
}

/// How far a run is, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lengths {
    pub(super) virtual_ns: i64,
    pub(super) wall_ns: i64,
    pub(super) paused_ns: i64,
}

/// How a run ended on an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) lengths: Lengths,
    /// Calls that were not virtualised, in words.
    pub(super) unhandled: Vec<String>,
    /// The files of its run directory; none when there is none.
    pub(super) results: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum How {
    Reached,
    Interrupted,
    Failed(Failure),
    /// It did not begin, in words.
    NotBegun(String),
}
