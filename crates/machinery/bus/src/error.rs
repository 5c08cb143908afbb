//! Errors of holds and of changes of the dilation.

use crate::TestbedError;

/// Reason why [`crate::Bus::hold`] returned no hold, or why [`crate::Bus::dilate`] changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The testbed could not be paused and continues to run. The requester may try again.
    #[error("the testbed could not be paused for {requester}: {source}")]
    Pause {
        /// Name of the requester.
        requester: String,
        /// Error of the testbed or the wire.
        source: TestbedError,
    },
    /// The requested dilation is not in force, and the request no longer pauses the testbed.
    #[error("the dilation could not be changed for {requester}: {source}")]
    Dilate {
        /// Name of the requester.
        requester: String,
        /// Error of the wire.
        source: TestbedError,
    },
    /// The testbed does not stop at the requested instant.
    #[error("a stop could not be agreed on: {source}")]
    Stop {
        /// Error of the wire.
        source: TestbedError,
    },
    /// An earlier pause or resume left the testbed in an unknown state, so the bus does not command
    /// the testbed any more.
    #[error("the pause wire is out of order: {cause}")]
    Broken {
        /// Description of the error in that pause or resume.
        cause: String,
    },
}
