//! Errors of benchmarks.

use std::io;

use timeloom_guest::GuestError;
use timeloom_run::exit::Failure;

/// Reason for which a benchmark could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The session could not be created, or refused a request.
    #[error("{0}")]
    Guest(#[from] GuestError),
    /// A system call failed. In the message, `doing` is followed by "failed".
    #[error("{doing}: {source}")]
    System {
        /// Operation that was attempted.
        doing: String,
        /// Error returned by the kernel.
        source: io::Error,
    },
    /// A worker process or the plant failed.
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
