//! Errors in running a program under a virtual clock.

use std::io;

/// Operation that failed, with its description and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A system call failed. `doing` reads as "… failed".
    #[error("{doing}: {source}")]
    System {
        /// Attempted operation, for the message.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// This machine does not support it; the text says what is missing.
    #[error("{0}")]
    Unsupported(String),
    /// The program to run was not found or may not be executed.
    #[error("cannot run `{program}`: {source}")]
    NoProgram {
        /// Program as the user wrote it.
        program: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The user requested something impossible.
    #[error("{0}")]
    Usage(String),
}

impl GuestError {
    /// Returns the kernel's last error, with the attempted operation.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        Self::System {
            doing: doing.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// Wraps `source`, with the attempted operation.
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
