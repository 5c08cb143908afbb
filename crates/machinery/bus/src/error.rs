//! Why a hold could not be had.

use std::fmt;

use crate::TestbedError;

/// Why [`crate::Bus::hold`] gave no hold. The requester holds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusError {
    /// The testbed could not be stood still and runs on. Trying again is safe.
    Pause {
        /// Who asked.
        requester: String,
        /// What the testbed said.
        source: TestbedError,
    },
    /// An earlier pause or resume left the testbed in a state that nobody
    /// knows, so the bus commands it no more.
    Broken {
        /// What happened then.
        cause: String,
    },
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause { requester, source } => {
                write!(
                    f,
                    "the testbed could not be paused for {requester}: {source}"
                )
            }
            Self::Broken { cause } => write!(f, "the pause wire is out of order: {cause}"),
        }
    }
}

impl std::error::Error for BusError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pause { source, .. } => Some(source),
            Self::Broken { .. } => None,
        }
    }
}
