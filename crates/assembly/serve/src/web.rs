//! Handlers of HTTP requests.
//!
//! - `assets`: the embedded pages, which contain no data and need no token;
//! - `runs`: the list of runs; `reports`: their reports;
//! - `actions`: pause, resume, step, run until, dilate;
//! - `socket`: the WebSocket of a page, over which the page receives the state of one run.

mod actions;
mod assets;
mod reports;
mod runs;
mod socket;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore};
use tower_http::set_header::SetResponseHeaderLayer;

use crate::access::{Access, Rights, check_origin, check_token, refuse};
use crate::live::Watchers;

/// State that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) access: Arc<Access>,
    pub(crate) watchers: Arc<Watchers>,
}

/// Limits on concurrent work for pages. The working thread holds the permit: if a page is closed,
/// its request ends at once, but the thread continues.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Permits for pages that show a run.
    pub(crate) sockets: Arc<Semaphore>,
    /// Permits for steps and runs until an instant, which may take long.
    pub(crate) long_actions: Arc<Semaphore>,
    /// Permits for other actions.
    pub(crate) short_actions: Arc<Semaphore>,
    /// Permits for reports in memory. A report stays in memory until the client has received all of
    /// it.
    pub(crate) reports: Arc<Semaphore>,
    /// Most recent list of runs. Its lock ensures that one list is made at a time.
    pub(crate) list: Arc<Mutex<Option<runs::List>>>,
}

/// Query parameter that names the run of a request.
#[derive(Debug, Deserialize)]
pub(crate) struct RunQuery {
    /// Name of the run below the directory.
    pub(crate) run: String,
}

/// Returns the routes of the server.
pub(crate) fn router(state: State) -> Router {
    let limits = Arc::new(Limits {
        sockets: Arc::new(Semaphore::new(64)),
        long_actions: Arc::new(Semaphore::new(8)),
        short_actions: Arc::new(Semaphore::new(8)),
        reports: Arc::new(Semaphore::new(2)),
        list: Arc::default(),
    });
    let data = Router::new()
        .route("/api/rights", get(rights))
        .route("/api/runs", get(runs::list))
        .route("/api/act", post(actions::act))
        .route("/api/ticket", post(reports::ticket))
        .route_layer(middleware::from_fn_with_state(state.clone(), check_token));
    // These check a ticket, and the first message of the socket.
    let own = Router::new()
        .route("/api/watch", get(socket::open))
        .route("/report", get(reports::report));
    let mut router = Router::new()
        .route("/", get(assets::library))
        .route("/run", get(assets::run))
        .route("/assets/{name}", get(assets::file))
        .merge(data)
        .merge(own)
        .fallback(missing)
        .with_state(state)
        .layer(Extension(limits))
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
        .layer(middleware::from_fn(check_origin));
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        let value = HeaderValue::from_static(value);
        router = router.layer(SetResponseHeaderLayer::if_not_present(name, value));
    }
    router
}

/// Returns the rights of the requesting page.
async fn rights(Extension(rights): Extension<Rights>) -> Json<serde_json::Value> {
    Json(serde_json::json!({ "may_act": rights == Rights::Act }))
}

async fn missing() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is no such page; the list of runs is at /",
    )
}

/// Maximum length of a request's body, in bytes. Only actions have a body.
const MOST_BODY_BYTES: usize = 4096;

/// Default headers of all responses. Scripts, styles and connections are those of this server, and
/// no script may turn text into markup (`require-trusted-types-for`).
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), microphone=(), geolocation=()",
    ),
    ("cache-control", "no-store"),
];
