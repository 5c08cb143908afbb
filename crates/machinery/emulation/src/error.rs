//! Errors of portals.

use std::io;

use rustix::io::Errno;
use timeloom_fabric::KernelError;

/// Reason why a portal cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum PortalError {
    /// The namespace cannot be entered.
    #[error("{0}")]
    Namespace(#[from] KernelError),
    /// The kernel refused a step.
    #[error(
        "cannot {action}: {source}{}",
        missing.map_or_else(String::new, |it| format!("; this needs {it}"))
    )]
    Kernel {
        /// Attempted operation.
        action: String,
        /// Error returned by the kernel.
        source: io::Error,
        /// Missing permission or device, if the error identifies it.
        missing: Option<&'static str>,
    },
    /// Two portals were joined to this host of the model.
    #[error("two portals are at host `{0}`")]
    PortUsedTwice(String),
    /// A portal was joined to this node, which is not a host.
    #[error("`{0}` is not a host, so it cannot have a portal")]
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
