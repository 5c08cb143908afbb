//! Why a run, or a part of it, could not begin. (What goes wrong later is in its results.)

use timeloom_fabric::FabricError;
use timeloom_guest::GuestError;
use timeloom_results::ResultsError;

/// What kept a run from beginning.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The session: clock, filter, cgroup.
    #[error("{0}")]
    Guest(GuestError),
    /// The network.
    #[error("{0}")]
    Fabric(FabricError),
    /// The run directory.
    #[error("{0}")]
    Results(ResultsError),
    /// The plan asks for something that does not fit together: a register
    /// bound to a signal that the plant does not have.
    #[error("{0}")]
    Plan(String),
    /// A part could not be started.
    #[error("{0}")]
    Start(String),
}

impl From<GuestError> for RunError {
    fn from(error: GuestError) -> Self {
        Self::Guest(error)
    }
}

impl From<FabricError> for RunError {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error)
    }
}

impl From<ResultsError> for RunError {
    fn from(error: ResultsError) -> Self {
        Self::Results(error)
    }
}
