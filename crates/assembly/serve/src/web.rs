//! Requests of pages.
//!
//! - `assets`: the pages themselves, embedded, without data and without a cookie;
//! - `runs`: the list of runs, and their reports;
//! - `actions`: pause, resume, step, run until, dilate;
//! - `socket`: the WebSocket of a page, which gets the state of one run.

mod actions;
mod assets;
mod runs;
mod socket;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::header::{HeaderName, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::access::{Access, Rights, check_cookie, check_origin, refuse};
use crate::live::Watchers;

/// State that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) access: Arc<Access>,
    pub(crate) watchers: Arc<Watchers>,
}

/// Limits of what pages do at the same time.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Pages that show a run.
    pub(crate) sockets: Arc<Semaphore>,
    /// Steps and runs until an instant, which may last.
    pub(crate) long_actions: Semaphore,
    /// Other actions, and lists of runs.
    pub(crate) short_actions: Semaphore,
}

/// Run that a request is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Which {
    /// Name below the directory.
    pub(crate) run: String,
}

/// Returns the routes.
pub(crate) fn router(state: State) -> Router {
    let limits = Arc::new(Limits {
        sockets: Arc::new(Semaphore::new(64)),
        long_actions: Semaphore::new(8),
        short_actions: Semaphore::new(8),
    });
    let data = Router::new()
        .route("/api/rights", get(rights))
        .route("/api/runs", get(runs::list))
        .route("/api/watch", get(socket::open))
        .route("/api/act", post(actions::act))
        .route("/report", get(runs::report))
        .route_layer(middleware::from_fn_with_state(state.clone(), check_cookie));
    let mut router = Router::new()
        .route("/", get(assets::library))
        .route("/run", get(assets::run))
        .route("/assets/{name}", get(assets::file))
        .route("/api/enter", post(enter))
        .merge(data)
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

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// Exchanges the token of an address for a cookie.
async fn enter(
    axum::extract::State(state): axum::extract::State<State>,
    Json(Token { token }): Json<Token>,
) -> Response {
    let cookie = state.access.exchange(&token);
    match cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        Some(cookie) => (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response(),
        None => refuse(
            StatusCode::FORBIDDEN,
            "this token is of another server, or of an earlier one; open the address that \
             `timeloom serve` printed last",
        ),
    }
}

/// Tells a page its rights.
async fn rights(Extension(rights): Extension<Rights>) -> Json<serde_json::Value> {
    Json(serde_json::json!({ "may_act": rights == Rights::Act }))
}

async fn missing() -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        "there is no such page; the list of runs is at /",
    )
}

/// Maximum length of a request's body, in bytes: a token, or an action.
const MOST_BODY_BYTES: usize = 4096;

/// Headers of every answer that does not set its own. Scripts, styles and connections are those of
/// this server, and no script may turn text into markup (`require-trusted-types-for`).
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
