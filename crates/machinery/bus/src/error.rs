//! Errors of a hold.

use crate::TestbedError;

/// Reason why [`crate::Bus::hold`] returned no hold. The requester holds nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The testbed could not be paused and runs on. Trying again is safe.
    #[error("the testbed could not be paused for {requester}: {source}")]
    Pause {
        /// Name of the requester.
        requester: String,
        /// Error of the testbed.
        source: TestbedError,
    },
    /// An earlier pause or resume left the testbed in an unknown state, so the bus commands it no
    /// more.
    #[error("the pause wire is out of order: {cause}")]
    Broken {
        /// Error of that pause or resume.
        cause: String,
    },
}
