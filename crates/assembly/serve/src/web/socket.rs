//! The WebSocket of a page that shows a run. The page gets differences to the state that it has. It
//! sends the names of the logs whose last lines it shows.
//!
//! Nothing is queued for a page: the next difference is made when the last one was sent, and leads
//! to the state of that moment. A page that takes none for [`PATIENCE`] is disconnected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::access::refuse;
use crate::live::{Cursor, Watched};
use crate::web::{Limits, State, Which};

/// Opens the socket of a page.
pub(super) async fn open(
    Shared(state): Shared<State>,
    Extension(limits): Extension<Arc<Limits>>,
    Query(which): Query<Which>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let Ok(permit) = Arc::clone(&limits.sockets).try_acquire_owned() else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "64 pages are open; close one",
        );
    };
    let watch = move || state.watchers.watch(&which.run);
    let watched = match tokio::task::spawn_blocking(watch).await {
        Ok(Ok(watched)) => watched,
        Ok(Err(error)) => return refuse(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    upgrade
        .max_message_size(MOST_MESSAGE_BYTES)
        .max_frame_size(MOST_MESSAGE_BYTES)
        .on_upgrade(async move |socket| {
            Page::new(socket, watched).show().await;
            drop(permit);
        })
}

/// Message of a page.
#[derive(Debug, Deserialize)]
struct Wish {
    /// Logs whose last lines it shows.
    logs: Vec<String>,
}

struct Page {
    socket: WebSocket,
    watched: Arc<Watched>,
    changes: watch::Receiver<u64>,
    cursor: Cursor,
    /// Last lines that were sent, of the logs that the page shows.
    tails: BTreeMap<String, Vec<String>>,
}

impl Page {
    fn new(socket: WebSocket, watched: Arc<Watched>) -> Self {
        Self {
            socket,
            changes: watched.changes(),
            watched,
            cursor: Cursor::default(),
            tails: BTreeMap::new(),
        }
    }

    /// Sends differences until the page is closed.
    async fn show(mut self) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reads_logs = false;
        let mut has_ended = false;
        loop {
            if !self.send(reads_logs).await {
                return;
            }
            reads_logs = tokio::select! {
                // Without a reader of the run nothing changes any more.
                changed = self.changes.changed(), if !has_ended => {
                    has_ended = changed.is_err();
                    false
                }
                heard = self.socket.recv() => match heard {
                    Some(Ok(Message::Text(text))) => self.hear(&text),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => false,
                },
                _ = look.tick() => !self.tails.is_empty(),
            };
        }
    }

    /// Takes note of the logs that the page shows; returns true if they are to be read now.
    fn hear(&mut self, text: &str) -> bool {
        let Ok(wish) = serde_json::from_str::<Wish>(text) else {
            return false;
        };
        let shown = wish.logs.into_iter().take(MOST_LOGS);
        let mut before = std::mem::take(&mut self.tails);
        let tail = |name: String| (name.clone(), before.remove(&name).unwrap_or_default());
        self.tails = shown.map(tail).collect();
        !self.tails.is_empty()
    }

    /// Sends the difference to the present state, if there is one; returns false if the page is
    /// gone.
    async fn send(&mut self, reads_logs: bool) -> bool {
        let mut update = self.watched.store().since(&mut self.cursor);
        if reads_logs {
            update.tails = self.new_tails().await;
        }
        if update.is_empty() {
            return true;
        }
        let Ok(text) = serde_json::to_string(&update) else {
            return false;
        };
        match timeout(PATIENCE, self.socket.send(Message::Text(text.into()))).await {
            Ok(sent) => sent.is_ok(),
            Err(_) => {
                let why = CloseFrame {
                    code: 1008,
                    reason: "the page took no message for too long".into(),
                };
                // It takes none now either.
                let close = self.socket.send(Message::Close(Some(why)));
                let _ = timeout(Duration::from_millis(100), close).await;
                false
            }
        }
    }

    /// Returns the last lines of the logs that have more of them than the page has.
    async fn new_tails(&mut self) -> BTreeMap<String, Vec<String>> {
        let names: Vec<String> = self.tails.keys().cloned().collect();
        let run = self.watched.directory.clone();
        let read = move || {
            let tail = |name: String| {
                let lines = run.last_lines(&name, MOST_LINES);
                (name, lines)
            };
            names.into_iter().map(tail).collect::<BTreeMap<_, _>>()
        };
        let read = tokio::task::spawn_blocking(read).await;
        let mut tails = read.unwrap_or_default();
        tails.retain(|name, lines| self.tails.get(name) != Some(lines));
        for (name, lines) in &tails {
            self.tails.insert(name.clone(), lines.clone());
        }
        tails
    }
}

/// Maximum length of a message of a page, in bytes.
const MOST_MESSAGE_BYTES: usize = 16 * 1024;
/// Maximum number of logs that a page shows.
const MOST_LOGS: usize = 8;
/// Number of lines that are shown of a log.
const MOST_LINES: usize = 40;
/// Interval between two looks at the logs that a page shows.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time after which a page that takes no message is disconnected.
const PATIENCE: Duration = Duration::from_secs(30);
