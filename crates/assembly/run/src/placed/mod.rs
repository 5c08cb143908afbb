//! A run that is spread over agents, each on a machine of its own.
//!
//! Whoever starts the run ([`mod@conduct`]) gives each agent ([`serve`]) the plan and the files
//! that its programs name. An agent takes its share of the plan ([`timeloom_scenario::Part`])
//! and makes an ordinary run of it, in an ordinary run directory. What is different is in
//! [`Together`]: the pause bus reaches the other agents, time begins when all are there,
//! links to other agents are tunnels, and what waits for a program of another agent hears
//! that it is ready. At the end the run directories come back and become one ([`merge`]).
//!
//! The conversation is [`message`]s in a [channel](crate::channel) that is sealed with the
//! agents' key.
//! Pauses and frames never pass through it: those go from agent to agent.

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
