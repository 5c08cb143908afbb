//! Why nothing could be measured.

use std::fmt;
use std::io;

use timeloom_exit::Failure;
use timeloom_guest::GuestError;

/// A benchmark that could not be run.
#[derive(Debug)]
pub enum BenchError {
    /// The session could not be made or refused something.
    Guest(GuestError),
    /// A system call failed. `doing` reads as "… failed".
    System {
        /// What was attempted.
        doing: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A worker or the plant did not do its part.
    Worker(String),
}

impl BenchError {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}

impl From<GuestError> for BenchError {
    fn from(error: GuestError) -> Self {
        Self::Guest(error)
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

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guest(error) => error.fmt(f),
            Self::System { doing, source } => write!(f, "{doing}: {source}"),
            Self::Worker(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Guest(error) => Some(error),
            Self::System { source, .. } => Some(source),
            Self::Worker(_) => None,
        }
    }
}
