//! The list of runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use timeloom_results::Outcome;

use crate::access::refuse;
use crate::live::{Listed, Watchers, seconds};
use crate::web::{Limits, State};

/// List of runs that was made for a page. Other pages receive the same list for the time [`FRESH`].
#[derive(Debug)]
pub(crate) struct List {
    made: Instant,
    json: Bytes,
}

/// Returns the list of runs, newest first.
pub(super) async fn list(
    Shared(state): Shared<State>,
    Extension(limits): Extension<Arc<Limits>>,
) -> Response {
    let mut last = Arc::clone(&limits.list).lock_owned().await;
    if let Some(list) = last.as_ref().filter(|list| list.made.elapsed() < FRESH) {
        return json(list.json.clone());
    }
    let make = move || {
        let (runs, is_complete) = list_runs(&state.watchers);
        let list = serde_json::json!({ "runs": runs, "is_complete": is_complete });
        let made = Instant::now();
        let list = List {
            made,
            json: list.to_string().into(),
        };
        last.insert(list).json.clone()
    };
    match tokio::task::spawn_blocking(make).await {
        Ok(list) => json(list),
        Err(error) => refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("listing the runs: {error}"),
        ),
    }
}

fn json(text: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

fn list_runs(watchers: &Watchers) -> (Vec<Listed>, bool) {
    let (names, is_complete) = watchers.library.run_names();
    let mut sessions = Vec::new();
    let mut runs: Vec<Listed> = Vec::with_capacity(names.len());
    for name in names {
        let read = watchers.library.run(&name).and_then(|run| {
            let manifest = run.manifest()?;
            Ok((run, manifest))
        });
        let (run, manifest) = match read {
            Ok(read) => read,
            Err(error) => {
                runs.push(Listed::unreadable(name, &error));
                continue;
            }
        };
        let session = match manifest.outcome {
            Outcome::Running => watchers.sessions.of(&run),
            _ => None,
        };
        let mut listed = Listed::of(name, &run, &manifest, session.is_some());
        for check in run.checks().unwrap_or_default() {
            listed.passed += usize::from(check.applies && check.passed);
            listed.failed += usize::from(check.applies && !check.passed);
        }
        if let Some(session) = session {
            sessions.push((runs.len(), session));
        }
        runs.push(listed);
    }
    let names: Vec<&str> = sessions.iter().map(|(_, name)| name.as_str()).collect();
    for ((place, _), status) in sessions.iter().zip(watchers.sessions.statuses(&names)) {
        if let Some(status) = status {
            runs[*place].virtual_s = seconds(status.virtual_ns);
        }
    }
    runs.sort_by(|a, b| (&b.about.started, &b.run).cmp(&(&a.about.started, &a.run)));
    (runs, is_complete)
}

/// Time for which a list is reused for other pages.
const FRESH: Duration = Duration::from_secs(1);
