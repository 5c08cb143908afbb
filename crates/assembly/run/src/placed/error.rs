//! Errors that prevent a run over several machines, or a query of agents.

use std::io;

use super::secret::KeyFileError;
use super::transfer::TransferError;

/// Error of one agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The plan has no address for the agent.
    #[error("it has no address")]
    NoAddress,
    /// A file that the agent needs cannot be sent.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The connection to the agent has failed or ended.
    #[error(transparent)]
    Conversation(#[from] io::Error),
    /// The agent refuses, and gives this reason.
    #[error("{0}")]
    Refused(String),
    /// The agent sent an unexpected message.
    #[error("it sent an unexpected message")]
    OffTopic,
    /// The thread of the connection has panicked.
    #[error("a thread has panicked")]
    Panicked,
}

/// Error that prevents the agents of a plan from starting together.
#[derive(Debug, thiserror::Error)]
pub enum SpreadError {
    /// The plan is for one machine.
    #[error("its [placement] names no agents")]
    NoAgents,
    /// The plan names no key file, and only peers with the agents' key may talk to the agents.
    #[error("agents need a key")]
    NoKey,
    /// The key file contains no valid key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The random number that identifies the run cannot be drawn.
    #[error("drawing a number: {0}")]
    Number(io::Error),
    /// This agent cannot take part.
    #[error("agent {name} ({address}): {why}")]
    Agent {
        /// Name in the plan.
        name: String,
        /// Address in the plan.
        address: String,
        /// Cause.
        why: AgentError,
    },
    /// The run was interrupted while these agents were not ready.
    #[error("interrupted while waiting for {0}")]
    Interrupted(String),
    /// These two agents do not share the same kind of clock.
    #[error("agents {0} and {1} use different clocks: start all with one --timeline")]
    Clocks(String, String),
}
