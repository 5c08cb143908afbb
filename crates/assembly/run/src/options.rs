//! Inputs of a run besides its plan.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use timeloom_scenario::Places;

use crate::summary::Progress;

/// Inputs of a run besides its plan.
pub struct RunOptions {
    /// Run directory to create.
    pub directory: PathBuf,
    /// If true, an earlier run in that directory is deleted; otherwise it is an error.
    pub replace: bool,
    /// Path of the program `timeloom`, which runs the daemons of the scenario's timelines.
    pub timeloom: PathBuf,
    /// Positions of the scenario's parts in its file, or `None` if the scenario was not read from a
    /// file. Used to report signals that a plant turns out not to have.
    pub places: Option<Places>,
    /// Name of the session for `timeloom query` and other commands.
    pub session: String,
    /// Set by the caller (Ctrl-C, SIGTERM) to end the run.
    pub interrupted: Arc<AtomicBool>,
    /// True if processes that the run starts for itself write their logs as JSON.
    pub log_json: bool,
    /// Called about twice a second.
    pub progress: Box<dyn FnMut(&Progress)>,
    /// Called with messages for the user.
    pub warn: Arc<dyn Fn(String) + Send + Sync>,
}
