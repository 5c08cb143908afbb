//! Why a hold could not be had.

use crate::TestbedError;

/// Why [`crate::Bus::hold`] gave no hold. The requester holds nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The testbed could not be stood still and runs on. Trying again is safe.
    #[error("the testbed could not be paused for {requester}: {source}")]
    Pause {
        /// Who asked.
        requester: String,
        /// What the testbed said.
        source: TestbedError,
    },
    /// An earlier pause or resume left the testbed in a state that nobody
    /// knows, so the bus commands it no more.
    #[error("the pause wire is out of order: {cause}")]
    Broken {
        /// What happened then.
        cause: String,
    },
}
