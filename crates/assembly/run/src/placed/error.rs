//! Why a run over several machines cannot begin, or agents cannot be asked.

use std::io;

use super::parcel::ParcelError;
use super::secret::KeyFileError;

/// Why an agent does not do what is asked of it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The plan does not say where it is.
    #[error("it has no address")]
    NoAddress,
    /// What it would have to be sent cannot be sent.
    #[error(transparent)]
    Parcel(#[from] ParcelError),
    /// The conversation with it has ended, or never began.
    #[error(transparent)]
    Conversation(#[from] io::Error),
    /// It refuses, and says why.
    #[error("{0}")]
    Refused(String),
    /// It speaks of something else.
    #[error("it says what was not asked")]
    OffTopic,
    /// The thread that spoke with it is no more.
    #[error("a thread has panicked")]
    Panicked,
}

/// Why the agents of a plan do not come together.
#[derive(Debug, thiserror::Error)]
pub enum SpreadError {
    /// The plan is for one machine.
    #[error("its [placement] names no agents")]
    NoAgents,
    /// Whoever may speak to agents has their key.
    #[error("agents need a key")]
    NoKey,
    /// The key's file gives none.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// A number that tells the run from all others.
    #[error("drawing a number: {0}")]
    Number(io::Error),
    /// One of them does not take part.
    #[error("agent {name} ({address}): {why}")]
    Agent {
        /// What the plan calls it.
        name: String,
        /// Where it is.
        address: String,
        /// What is the matter.
        why: AgentError,
    },
    /// The run was interrupted while these agents were not ready.
    #[error("interrupted while waiting for {0}")]
    Interrupted(String),
    /// What these two share is not one clock.
    #[error("agents {0} and {1} go by different clocks: start all with one --timeline")]
    Clocks(String, String),
}
