//! What the kernel refuses a portal.

use core::fmt;
use std::io;

use rustix::io::Errno;
use timeloom_fabric::KernelError;

/// Why a portal could not be made.
#[derive(Debug)]
pub enum PortalError {
    /// The namespace could not be entered.
    Namespace(KernelError),
    /// A step that the kernel refused.
    Kernel {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        source: io::Error,
        /// What is missing, where that can be told.
        missing: Option<&'static str>,
    },
    /// Two portals at one host of the model.
    PortUsedTwice(String),
    /// A portal at a node that is no host.
    NotAHost(String),
}

impl PortalError {
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Self {
        let missing = match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Some("CAP_NET_ADMIN (run as root)"),
            _ => None,
        };
        Self::Kernel {
            action: action.into(),
            source,
            missing,
        }
    }

    pub(crate) fn missing_if(mut self, errors: &[Errno], what: &'static str) -> Self {
        if let Self::Kernel {
            source, missing, ..
        } = &mut self
            && Errno::from_io_error(source).is_some_and(|error| errors.contains(&error))
        {
            *missing = Some(what);
        }
        self
    }
}

impl From<KernelError> for PortalError {
    fn from(error: KernelError) -> Self {
        Self::Namespace(error)
    }
}

impl fmt::Display for PortalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(error) => error.fmt(f),
            Self::Kernel {
                action,
                source,
                missing,
            } => {
                write!(f, "cannot {action}: {source}")?;
                if let Some(missing) = missing {
                    write!(f, "; this needs {missing}")?;
                }
                Ok(())
            }
            Self::PortUsedTwice(name) => write!(f, "two portals are at host `{name}`"),
            Self::NotAHost(name) => write!(f, "`{name}` is no host, so no portal can be there"),
        }
    }
}

impl std::error::Error for PortalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Namespace(error) => Some(error),
            Self::Kernel { source, .. } => Some(source),
            Self::PortUsedTwice(_) | Self::NotAHost(_) => None,
        }
    }
}
