//! Why nothing could be measured.

use std::io;

use timeloom_exit::Failure;
use timeloom_guest::GuestError;

/// A benchmark that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The session could not be made or refused something.
    #[error("{0}")]
    Guest(#[from] GuestError),
    /// A system call failed. `doing` reads as "… failed".
    #[error("{doing}: {source}")]
    System {
        /// What was attempted.
        doing: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A worker or the plant did not do its part.
    #[error("{0}")]
    Worker(String),
}

impl BenchError {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Guest(error) => error.into(),
            error => Self::run(error),
        }
    }
}
