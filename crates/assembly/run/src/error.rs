//! Why a run, or a part of it, could not begin. (What goes wrong later is in its results.)

use timeloom_fabric::FabricError;
use timeloom_guest::GuestError;
use timeloom_results::ResultsError;
use timeloom_scenario::ScenarioErrors;

/// What kept a run from beginning.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The session: clock, filter, cgroup.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The network.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The run directory.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The plan asks for something that does not fit together: a register
    /// bound to a signal that the plant does not have.
    #[error("{0}")]
    Plan(String),
    /// The scenario names signals that its plants do not have.
    #[error(transparent)]
    Mistakes(#[from] ScenarioErrors),
    /// A part could not be started.
    #[error("{0}")]
    Start(String),
}
