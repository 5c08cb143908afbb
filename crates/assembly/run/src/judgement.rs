//! Evaluation of a run: its checks, and the outcome that its manifest records.

use timeloom_results::{CheckResult, Manifest, MeasuredValue, Outcome, RunDirectory};
use timeloom_scenario::Plan;

use crate::civil::civil_now;
use crate::error::RunError;
use crate::summary::Summary;
use crate::verdict::End;

/// Evaluates the plan's checks on the signals that the run recorded.
pub(crate) fn judge(plan: &Plan, directory: &RunDirectory) -> Result<Vec<CheckResult>, RunError> {
    // One pass over the recorded signals serves all checks, and no sample is kept in memory.
    let selectors = plan.checks.iter().map(|it| it.assert.signal.to_string());
    let selectors: Vec<String> = selectors.collect();
    let selectors: Vec<&str> = selectors.iter().map(String::as_str).collect();
    let mut seen: Vec<_> = plan.checks.iter().map(|it| it.assert.begin()).collect();
    if !seen.is_empty() {
        directory.each_sample(&selectors, |index, row| {
            seen[index].add(row.t_virtual.as_ns(), row.value);
        })?;
    }
    let mut checks = Vec::new();
    for (check, seen) in plan.checks.iter().zip(&seen) {
        let outcome = check.assert.judge(seen);
        checks.push(CheckResult {
            name: check.name.clone(),
            passed: outcome.passed,
            measured: outcome
                .measured
                .map_or(MeasuredValue::Nothing, MeasuredValue::from),
            expression: check.assert.to_string(),
            explanation: outcome.explanation,
            applies: plan.applies(check),
        });
    }
    Ok(checks)
}

/// Writes the outcome of a run into its manifest.
pub(crate) fn close(
    directory: &RunDirectory,
    mut manifest: Manifest,
    summary: Summary,
) -> Result<Summary, RunError> {
    manifest.ended = Some(civil_now());
    manifest.virtual_duration = summary.progress.virtual_time;
    manifest.wall_duration = summary.progress.wall;
    manifest.paused_total = summary.progress.paused;
    if let End::Failed(failure) = &summary.end {
        manifest.failure = Some(failure.clone());
    }
    (manifest.outcome, manifest.culprit) = outcome(&summary);
    directory.write_manifest(&manifest)?;
    Ok(summary)
}

/// Returns the outcome of the run, and the reason if it was interrupted or failed.
fn outcome(summary: &Summary) -> (Outcome, Option<String>) {
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
