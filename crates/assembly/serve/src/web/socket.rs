//! The WebSocket of a page that shows a run. The first message of the page contains its token. The
//! page then receives differences to the state that it has, and sends the names of the logs whose
//! last lines it shows.
//!
//! No differences are queued for a page: the next one is computed after the previous one was sent,
//! and leads to the state at that moment. A large difference is sent in parts. A page that reads no
//! byte for half a minute is disconnected (`connections`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State as Shared};
use axum::response::Response;
use serde::Deserialize;
use timeloom_text::visible;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::access::NOT_THIS_TOKEN;
use crate::connections::Connection;
use crate::live::{Cursor, Update, Watched};
use crate::web::{Limits, RunQuery, State};

/// Opens the socket of a page.
pub(super) async fn open(
    Shared(state): Shared<State>,
    Extension(limits): Extension<Arc<Limits>>,
    Extension(connection): Extension<Arc<Connection>>,
    Query(which): Query<RunQuery>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade
        .max_message_size(MOST_MESSAGE_BYTES)
        .max_frame_size(MOST_MESSAGE_BYTES)
        .on_upgrade(async move |mut socket| {
            let welcome = welcome(&mut socket, &state, &limits, &connection, which.run);
            let welcomed = tokio::select! {
                welcomed = welcome => welcomed,
                () = connection.ended() => return,
            };
            match welcomed {
                Ok((watched, _permit)) => Page::new(socket, watched).show().await,
                Err(refusal) => refusal.send(socket).await,
            }
        })
}

/// Reason why the server closes a socket.
struct Refusal {
    /// Code of the close message, in the range for private use (RFC 6455, section 7.4.2).
    code: u16,
    reason: String,
}

impl Refusal {
    fn new(code: u16, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self { code, reason }
    }

    /// Closes the socket with this reason. Does not wait for a client that reads nothing.
    async fn send(mut self, mut socket: WebSocket) {
        let mut length = self.reason.len().min(MOST_REASON_BYTES);
        while !self.reason.is_char_boundary(length) {
            length -= 1;
        }
        self.reason.truncate(length);
        let frame = CloseFrame {
            code: self.code,
            reason: self.reason.into(),
        };
        let _ = timeout(CLOSING, socket.send(Message::Close(Some(frame)))).await;
    }
}

/// First message of a page, with its token and run.
#[derive(Debug, Deserialize)]
struct Greeting {
    token: String,
}

/// Checks the first message of a page, and starts to read the run.
async fn welcome(
    socket: &mut WebSocket,
    state: &State,
    limits: &Limits,
    connection: &Connection,
    run: String,
) -> Result<(Arc<Watched>, OwnedSemaphorePermit), Refusal> {
    let first = match timeout(GREETING, socket.recv()).await {
        Ok(Some(Ok(Message::Text(text)))) => serde_json::from_str::<Greeting>(&text).ok(),
        _ => None,
    };
    let token = first.map(|greeting| greeting.token).unwrap_or_default();
    if state.access.rights(&token).is_none() {
        return Err(Refusal::new(NO_ACCESS, NOT_THIS_TOKEN));
    }
    connection.grant_access();
    let permit = Arc::clone(&limits.sockets).try_acquire_owned();
    let permit = permit.map_err(|_| Refusal::new(NOT_NOW, "64 pages are open; close one"))?;
    let watchers = Arc::clone(&state.watchers);
    match tokio::task::spawn_blocking(move || watchers.watch(&run)).await {
        Ok(Ok(watched)) => Ok((watched, permit)),
        Ok(Err(error)) => Err(Refusal::new(NOT_NOW, error)),
        Err(error) => Err(Refusal::new(NOT_NOW, error)),
    }
}

/// Later message of a page.
#[derive(Debug, Deserialize)]
struct Wish {
    /// Logs whose last lines the page shows.
    logs: Vec<String>,
}

struct Page {
    socket: WebSocket,
    watched: Arc<Watched>,
    changes: watch::Receiver<u64>,
    cursor: Cursor,
    /// Lines that were sent last, by log.
    tails: BTreeMap<String, Vec<String>>,
    /// Earliest time at which the logs are read again.
    look: Instant,
}

impl Page {
    fn new(socket: WebSocket, watched: Arc<Watched>) -> Self {
        Self {
            socket,
            changes: watched.changes(),
            watched,
            cursor: Cursor::default(),
            tails: BTreeMap::new(),
            look: Instant::now(),
        }
    }

    /// Sends differences until the page is closed.
    async fn show(mut self) {
        // The first state is a change for this page.
        self.changes.mark_changed();
        loop {
            let sent = tokio::select! {
                changed = self.changes.changed() => match changed {
                    Ok(()) => self.send_changes().await,
                    Err(_) => {
                        let reason = "the reader of the run ended";
                        return Refusal::new(NOT_NOW, reason).send(self.socket).await;
                    }
                },
                heard = self.socket.recv() => match heard {
                    Some(Ok(Message::Text(text))) => {
                        self.hear(&text);
                        true
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => true,
                },
                () = sleep_until(self.look), if !self.tails.is_empty() => self.send_tails().await,
            };
            if !sent {
                return;
            }
        }
    }

    /// Stores the names of the logs that the page shows. They are read at the next interval, so
    /// that frequent messages do not cause frequent reads.
    fn hear(&mut self, text: &str) {
        let Ok(wish) = serde_json::from_str::<Wish>(text) else {
            return;
        };
        let shown = wish.logs.into_iter().take(MOST_LOGS);
        let mut before = std::mem::take(&mut self.tails);
        let tail = |name: String| (name.clone(), before.remove(&name).unwrap_or_default());
        self.tails = shown.map(tail).collect();
    }

    /// Sends the difference to the present state; returns false if the page was closed.
    async fn send_changes(&mut self) -> bool {
        loop {
            let watched = Arc::clone(&self.watched);
            let mut cursor = std::mem::take(&mut self.cursor);
            // A large difference takes a while, and other pages are served by this thread.
            let make = move || {
                let (update, is_all) = watched.store().since(&mut cursor);
                let text = (!update.is_empty()).then(|| serde_json::to_string(&update));
                (text, is_all, cursor)
            };
            let Ok((text, is_all, cursor)) = tokio::task::spawn_blocking(make).await else {
                return false;
            };
            self.cursor = cursor;
            let sent = match text {
                Some(Ok(text)) => self.socket.send(Message::Text(text.into())).await.is_ok(),
                Some(Err(_)) => false,
                None => true,
            };
            if !sent || is_all {
                return sent;
            }
        }
    }

    /// Sends the last lines of logs that have new lines; returns false if the page was closed.
    async fn send_tails(&mut self) -> bool {
        let tails = self.new_tails().await;
        self.look = Instant::now() + LOOK_EVERY;
        if tails.is_empty() {
            return true;
        }
        match serde_json::to_string(&Update::of_tails(tails)) {
            Ok(text) => self.socket.send(Message::Text(text.into())).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Returns the last lines of the logs that have lines which the page does not have.
    async fn new_tails(&mut self) -> BTreeMap<String, Vec<String>> {
        let names: Vec<String> = self.tails.keys().cloned().collect();
        let run = self.watched.directory.clone();
        let read = move || {
            let tail = |name: String| {
                let lines = run.last_lines(&name, MOST_LINES).into_iter();
                let lines = lines.map(|line| visible(&line).into_owned());
                (name, lines.collect())
            };
            names.into_iter().map(tail).collect::<BTreeMap<_, Vec<_>>>()
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

/// Close code for a page without access, which then asks the user for the token.
const NO_ACCESS: u16 = 4401;
/// Close code for a page that may try again.
const NOT_NOW: u16 = 4503;
/// Maximum length of a reason in a close message (RFC 6455, 5.5).
const MOST_REASON_BYTES: usize = 123;
/// Time within which a page must send its token.
const GREETING: Duration = Duration::from_secs(5);
/// Timeout for sending the close message.
const CLOSING: Duration = Duration::from_millis(500);
/// Maximum length of a message of a page, in bytes.
const MOST_MESSAGE_BYTES: usize = 16 * 1024;
/// Maximum number of logs of which a page shows the last lines.
const MOST_LOGS: usize = 8;
/// Number of lines of a log that a page shows.
const MOST_LINES: usize = 40;
/// Interval between two reads of the logs that a page shows.
const LOOK_EVERY: Duration = Duration::from_secs(1);
