//! Environment in which a simulated network starts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use timeloom_fabric::{Fabric, VirtualCubic};
use timeloom_guest::Clock;
use timeloom_results::RunDirectory;
use timeloom_time::{Instant, Utc};

use crate::cards::Cards;
use crate::node::Membership;
use crate::record::RunRecorder;
use crate::verdict::Reporter;

/// Environment in which a network starts.
pub(crate) struct Surroundings<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) clock: &'a Arc<Clock>,
    pub(crate) civil_start: Instant<Utc>,
    pub(crate) run_recorder: &'a RunRecorder,
    pub(crate) reporter: &'a Reporter,
    /// Path of the program `timeloom`, which runs as the process of an engine.
    pub(crate) timeloom: &'a Path,
    /// True if the processes of engines write their logs as JSON.
    pub(crate) log_json: bool,
    /// Set by the caller to end the run.
    pub(crate) interrupted: &'a Arc<AtomicBool>,
    /// Membership of this node, which has all engines of the network or one of them.
    pub(crate) membership: &'a dyn Membership,
    /// CUBIC of the hosts' kernels, which follows the network's time.
    pub(crate) cubic: Option<&'a Arc<VirtualCubic>>,
    /// Network cards of this node's hosts.
    pub(crate) cards: &'a Cards,
}
