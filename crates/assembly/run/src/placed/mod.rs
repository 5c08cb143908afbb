//! Runs that are distributed over agents, each on a machine of its own.
//!
//! The process that starts the run ([`mod@coordinate`]) sends each agent ([`serve`]) the plan and
//! the files that the agent's programs name. The agent takes its share of the plan
//! ([`timeloom_scenario::Part`]) and runs it like a plan of its own, in a run directory of its own.
//! [`AgentMembership`] has the differences: the pause bus includes the other agents, time begins
//! when all agents are present, and links to other agents are tunnels. A program that waits for a
//! program of another agent is notified when that program is ready. At the end the agents send back
//! their run directories, which are merged ([`merge`]).
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

pub(crate) use coordinate::coordinate;
pub use describe::{AgentDescription, Description, describe};
pub use error::{AgentError, SpreadError};
pub(crate) use membership::{AgentBus, AgentMembership, tell};
pub use secret::{KeyFileError, Secret, read_key};
pub use serve::{AgentTimeline, Serve};
