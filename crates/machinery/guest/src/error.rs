//! What can go wrong in putting a program under a virtual clock.

use std::fmt;
use std::io;

/// An operation that failed, with what was being done and what to do about it.
#[derive(Debug)]
pub enum GuestError {
    /// A system call failed. `doing` reads as "… failed".
    System {
        /// What was attempted, for the message.
        doing: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This machine cannot do it; the text says what is missing.
    Unsupported(String),
    /// The program to run was not found or may not be executed.
    NoProgram {
        /// As the user wrote it.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The user asked for something impossible.
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

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { doing, source } => write!(f, "{doing}: {source}"),
            Self::Unsupported(text) | Self::Usage(text) => f.write_str(text),
            Self::NoProgram { program, source } => write!(f, "cannot run `{program}`: {source}"),
        }
    }
}

impl std::error::Error for GuestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } | Self::NoProgram { source, .. } => Some(source),
            Self::Unsupported(_) | Self::Usage(_) => None,
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
