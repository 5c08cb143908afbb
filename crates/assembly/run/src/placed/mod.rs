//! Runs that are distributed over agents, each on a machine of its own.
//!
//! The process that starts the run ([`mod@conduct`]) sends each agent ([`serve`]) the plan and the
//! files that its programs name. An agent takes its share of the plan ([`timeloom_scenario::Part`])
//! and makes an ordinary run of it, in an ordinary run directory. [`Together`] contains the
//! differences: the pause bus reaches the other agents, time begins when all agents are present,
//! links to other agents are tunnels, and a program that waits for a program of another agent is
//! notified when that program is ready. At the end the run directories are sent back and merged
//! ([`merge`]).
//!
//! The conversation consists of [`message`]s in a [channel](crate::channel) that is authenticated
//! with the agents' key. Pauses and frames never pass through it: agents exchange them directly.

mod calls;
mod conduct;
mod describe;
mod error;
pub mod fuzzing;
mod guests;
mod merge;
mod message;
mod outcome;
mod parcel;
mod rewrite;
mod scratch;
pub(crate) mod secret;
mod serve;
mod together;

pub(crate) use conduct::conduct;
pub use describe::{Described, Description, describe};
pub use error::{AgentError, SpreadError};
pub use secret::{KeyFileError, Secret, read_key};
pub use serve::{Serve, WhichTimeline};
pub(crate) use together::{Together, tell};
