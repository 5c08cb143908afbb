//! Coordinator of a run: gives each node its share of the plan. A run on one machine has one node,
//! in the process of the coordinator.

use timeloom_scenario::Plan;

use crate::error::RunError;
use crate::experiment::run_here;
use crate::node::SoleNode;
use crate::options::RunOptions;
use crate::placed::coordinate;
use crate::summary::Summary;

/// Runs a plan to its end and leaves a complete run directory.
///
/// # Errors
/// Returns an error if the run could not start. Later failures are in the summary and in the
/// results, with all data recorded until then.
pub fn run(plan: &Plan, options: RunOptions) -> Result<Summary, RunError> {
    match plan.placement.is_spread() {
        true => coordinate(plan, options),
        false => run_here(plan, options, &SoleNode::default()),
    }
}
