//! Why a run could not begin. (What goes wrong later is in its results.)

use std::fmt;

use timeloom_fabric::FabricError;
use timeloom_guest::GuestError;
use timeloom_results::ResultsError;

/// What kept a run from beginning.
#[derive(Debug)]
pub enum RunError {
    /// The session: clock, filter, cgroup.
    Guest(GuestError),
    /// The network.
    Fabric(FabricError),
    /// The run directory.
    Results(ResultsError),
    /// The plan asks for something that does not fit together: a register
    /// bound to a signal that the plant does not have.
    Plan(String),
    /// A part could not be started.
    Start(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guest(error) => error.fmt(f),
            Self::Fabric(error) => error.fmt(f),
            Self::Results(error) => error.fmt(f),
            Self::Plan(text) | Self::Start(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for RunError {}

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
