//! Reports of runs. A browser opens a report by a navigation, which sends no token. A URL without a
//! ticket therefore leads to a page of this server, which requests a ticket and then opens the
//! report with it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http_body::{Frame, SizeHint};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::access::refuse;
use crate::web::{Limits, RunQuery, State, assets};

/// Returns a ticket for the report of a run.
pub(super) async fn ticket(
    Shared(state): Shared<State>,
    Query(which): Query<RunQuery>,
) -> Response {
    let access = Arc::clone(&state.access);
    let name = which.run.clone();
    let has_report = move || {
        let run = state.watchers.library.run(&name)?;
        Ok::<_, timeloom_results::ResultsError>(run.has_report())
    };
    match tokio::task::spawn_blocking(has_report).await {
        Ok(Ok(true)) => match access.ticket(&which.run) {
            Ok(ticket) => Json(serde_json::json!({ "ticket": ticket })).into_response(),
            Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        Ok(Ok(false)) => refuse(StatusCode::NOT_FOUND, NO_REPORT),
        Ok(Err(error)) => refuse(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Query parameters of a report: the run, and the ticket if there is one.
#[derive(Debug, Deserialize)]
pub(super) struct Opened {
    run: String,
    #[serde(default)]
    ticket: String,
}

/// Returns the report of a run if the request has a valid ticket, otherwise the page that requests
/// a ticket. The file is untrusted, so its headers make the browser treat it as a separate origin
/// without scripts.
pub(super) async fn report(
    Shared(state): Shared<State>,
    Extension(limits): Extension<Arc<Limits>>,
    Query(Opened { run, ticket }): Query<Opened>,
) -> Response {
    if !state.access.redeem(&ticket, &run, Instant::now()) {
        return assets::report();
    }
    let permit = timeout(QUEUE, Arc::clone(&limits.reports).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "other reports are being sent; load this page again",
        );
    };
    let read = move || Ok((state.watchers.library.run(&run)?.report()?, permit));
    let read = tokio::task::spawn_blocking(read).await;
    match read {
        Ok(Ok((Some(html), permit))) => {
            let headers = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CONTENT_SECURITY_POLICY, OF_REPORTS),
            ];
            let sent = Sent {
                rest: html.into(),
                until: Instant::now() + SENDING,
                _permit: permit,
            };
            (headers, Body::new(sent)).into_response()
        }
        Ok(Ok((None, _))) => refuse(StatusCode::NOT_FOUND, NO_REPORT),
        Ok(Err::<_, timeloom_results::ResultsError>(error)) => {
            refuse(StatusCode::NOT_FOUND, &error.to_string())
        }
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Report that is being sent. Its memory and its permit are released when the client has received
/// all of it, or the timeout has expired.
struct Sent {
    rest: Bytes,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if Instant::now() > self.until {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let length = self.rest.len().min(FRAME_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

const NO_REPORT: &str = "the run has no report yet; `timeloom report DIR` writes it";
const OF_REPORTS: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Maximum time for which a report waits until others have been sent.
const QUEUE: Duration = Duration::from_secs(10);
/// Time within which a client must have received the whole report: 64 MiB at 2 Mbit/s.
const SENDING: Duration = Duration::from_secs(300);
/// Number of bytes that are passed to the connection at once.
const FRAME_BYTES: usize = 64 * 1024;
