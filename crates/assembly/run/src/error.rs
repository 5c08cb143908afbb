//! Errors that prevent a run, or a part of a run, from starting. Later errors are recorded in the
//! results instead.

use timeloom_fabric::FabricError;
use timeloom_guest::GuestError;
use timeloom_results::ResultsError;
use timeloom_scenario::ScenarioErrors;

/// Error that prevented a run from starting.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Error of the session: clock, filter or cgroup.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// Error of the network.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Error of the run directory.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The plan is inconsistent: for example, a register is bound to a signal that the plant does
    /// not have.
    #[error("{0}")]
    Plan(String),
    /// The scenario names signals that its plants do not have.
    #[error(transparent)]
    Mistakes(#[from] ScenarioErrors),
    /// A part could not be started.
    #[error("{0}")]
    Start(String),
}
