//! Runs that are distributed over agents, each on a machine of its own.
//!
//! The process that starts the run ([`mod@coordinate`]) sends each agent ([`serve`]) the plan and
//! the files that the agent's programs name. The agent selects its part of the plan
//! ([`timeloom_scenario::Part`]) and runs it like any other plan, in its own run directory.
//! [`AgentMembership`](membership::AgentMembership) is its membership in the run: the pause bus
//! connects the agents, virtual time starts when all agents have joined, and links to other agents
//! are tunnels. With `compute = "none"` the agents act in [`turns`] instead. If a program depends
//! on a program of another agent, the agent starts it when that program is ready. At the end the
//! agents return their run directories, which are merged ([`merge`]).
//!
//! Run and agents exchange [`message`]s in a [channel](crate::channel) that is authenticated with
//! the agents' key. Pauses and frames never pass through this channel: agents exchange them
//! directly.

mod calls;
mod coordinate;
mod describe;
mod error;
pub mod fuzzing;
mod guests;
mod membership;
mod merge;
mod message;
mod outcome;
mod rewrite;
mod scratch;
pub(crate) mod secret;
mod serve;
mod transfer;
mod turns;

pub(crate) use coordinate::coordinate;
pub use describe::{AgentDescription, Description, describe};
pub use error::{AgentError, SpreadError};
pub(crate) use membership::tell;
pub use secret::{KeyFileError, Secret, read_key};
pub use serve::{AgentTimeline, Serve};
