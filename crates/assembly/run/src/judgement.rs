//! What a run comes to: its checks, and how it counts.

use timeloom_results::{Check, Measured, Outcome, RunDirectory};
use timeloom_scenario::Plan;

use crate::error::RunError;
use crate::experiment::Summary;
use crate::verdict::End;

/// Evaluates the plan's checks on what the run recorded.
pub(crate) fn judge(plan: &Plan, directory: &RunDirectory) -> Result<Vec<Check>, RunError> {
    let mut checks = Vec::new();
    for check in &plan.checks {
        let selector = check.assert.signal.to_string();
        let series = directory.series(&[&selector])?;
        let samples: Vec<(i64, f64)> = series
            .iter()
            .flat_map(|series| {
                series
                    .samples
                    .iter()
                    .map(|(at, value)| (at.as_ns(), *value))
            })
            .collect();
        let outcome = check.evaluate(&samples);
        checks.push(Check {
            name: check.name.clone(),
            passed: outcome.passed,
            measured: outcome.measured.map_or(Measured::Nothing, Measured::from),
            expression: check.assert.to_string(),
            explanation: outcome.explanation,
            applies: plan.applies(check),
        });
    }
    Ok(checks)
}

/// How the run counts, and why where it is not done.
pub(crate) fn outcome(summary: &Summary) -> (Outcome, Option<String>) {
    match &summary.end {
        End::Interrupted => (Outcome::Interrupted, Some("stopped from outside".into())),
        End::Failed(failure) => (Outcome::Failed, Some(failure.to_string())),
        End::Reached => match summary
            .checks
            .iter()
            .find(|check| check.applies && !check.passed)
        {
            Some(check) => (
                Outcome::Failed,
                Some(format!("check {}: {}", check.name, check.explanation)),
            ),
            None => (Outcome::Done, None),
        },
    }
}
