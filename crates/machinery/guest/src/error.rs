//! What can go wrong in putting a program under a virtual clock.

use std::io;

/// An operation that failed, with what was being done and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A system call failed. `doing` reads as "… failed".
    #[error("{doing}: {source}")]
    System {
        /// What was attempted, for the message.
        doing: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This machine cannot do it; the text says what is missing.
    #[error("{0}")]
    Unsupported(String),
    /// The program to run was not found or may not be executed.
    #[error("cannot run `{program}`: {source}")]
    NoProgram {
        /// As the user wrote it.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The user asked for something impossible.
    #[error("{0}")]
    Usage(String),
}

impl GuestError {
    /// The kernel's last error, with what was being done.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        Self::System {
            doing: doing.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// `source`, with what was being done.
    pub(crate) fn system<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::System {
            doing,
            source: source.into(),
        }
    }
}

/// Turns the C convention (-1 and errno) into a result.
pub(crate) fn check(result: i64, doing: impl Into<String>) -> Result<i64, GuestError> {
    if result < 0 {
        Err(GuestError::last(doing))
    } else {
        Ok(result)
    }
}
