//! The list of runs, and the reports of runs.

use std::sync::Arc;

use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use timeloom_guest::{StatusText, Watching, list_sessions};
use timeloom_results::{Outcome, RunDirectory, format_rfc3339};

use crate::access::refuse;
use crate::live::{Listed, State as RunState, Watchers, bounded};
use crate::web::{Limits, State, Which};

/// Lists the runs, the newest first.
pub(super) async fn list(
    Shared(state): Shared<State>,
    Extension(limits): Extension<Arc<Limits>>,
) -> Response {
    let Ok(_permit) = limits.short_actions.acquire().await else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
    };
    let listed = tokio::task::spawn_blocking(move || list_runs(&state.watchers)).await;
    match listed {
        Ok((runs, is_complete)) => {
            Json(serde_json::json!({ "runs": runs, "is_complete": is_complete })).into_response()
        }
        Err(error) => refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("listing the runs: {error}"),
        ),
    }
}

fn list_runs(watchers: &Watchers) -> (Vec<Listed>, bool) {
    let (names, is_complete) = watchers.library.run_names();
    let mut sessions = None;
    let mut runs: Vec<Listed> = names
        .into_iter()
        .map(|name| {
            let listed = watchers.library.run(&name).and_then(|run| {
                let manifest = run.manifest()?;
                Ok((run, manifest))
            });
            match listed {
                Ok((run, manifest)) => {
                    let session = (manifest.outcome == Outcome::Running)
                        .then(|| of_run(sessions.get_or_insert_with(sessions_now), &run))
                        .flatten();
                    let mut listed = Listed {
                        run: name,
                        scenario: bounded(&manifest.name),
                        state: RunState::of(manifest.outcome, session.is_some()),
                        virtual_s: session.map_or(manifest.virtual_duration.as_s_f64(), |status| {
                            status.virtual_ns as f64 / 1e9
                        }),
                        started: format_rfc3339(manifest.started),
                        untrusted: None,
                        passed: 0,
                        failed: 0,
                        culprit: manifest.culprit.as_deref().map(bounded),
                        has_report: run.has_report(),
                        error: None,
                    };
                    if manifest.outcome != Outcome::Running {
                        let reasons = manifest.untrusted.iter().take(3);
                        listed.untrusted = Some(reasons.map(|it| bounded(it)).collect());
                    }
                    for check in run.checks().unwrap_or_default() {
                        listed.passed += usize::from(check.applies && check.passed);
                        listed.failed += usize::from(check.applies && !check.passed);
                    }
                    listed
                }
                Err(error) => Listed::unreadable(name, &error),
            }
        })
        .collect();
    runs.sort_by(|a, b| (&b.started, &b.run).cmp(&(&a.started, &a.run)));
    (runs, is_complete)
}

/// Returns the status of each session of a run.
fn sessions_now() -> Vec<StatusText> {
    let names = list_sessions().unwrap_or_default();
    let status = |name: &String| Watching::open(name).ok()?.status().ok();
    names.iter().filter_map(status).collect()
}

fn of_run<'a>(sessions: &'a [StatusText], run: &RunDirectory) -> Option<&'a StatusText> {
    let writes = |status: &&StatusText| {
        let directory = status.directory.as_deref();
        directory.is_some_and(|directory| run.is_at(directory))
    };
    sessions.iter().find(writes)
}

/// Returns the report of a run. The file may have been prepared: the browser gives it an origin of
/// its own and runs no script in it.
pub(super) async fn report(Shared(state): Shared<State>, Query(which): Query<Which>) -> Response {
    let read = move || state.watchers.library.run(&which.run)?.report();
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(Some(html))) => {
            let headers = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CONTENT_SECURITY_POLICY, OF_REPORTS),
            ];
            (headers, html).into_response()
        }
        Ok(Ok(None)) => refuse(
            StatusCode::NOT_FOUND,
            "the run has no report yet; `timeloom report DIR` writes it",
        ),
        Ok(Err(error)) => refuse(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

const OF_REPORTS: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
