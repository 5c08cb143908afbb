//! Control socket of a running session, for `timeloom pause` and similar commands. Each message is
//! one JSON object per line, in both directions.
//!
//! - `protocol`: the messages; `client`: the client's side;
//! - `link`: new properties of a link;
//! - `watching`: a client that asks for the status again and again; `words`: spans and instants as
//!   users write them;
//! - `controlled`: the interface of a controlled session; `obey`: execution of requests;
//! - `enter`: commands that a client starts on one of the session's hosts;
//! - `until`, `until_hosts`: runs of a session or of hosts until a given instant;
//! - `why`: causes because of which time stands or does not skip;
//! - `error`: reasons of failures;
//! - `granter`, `grants`, `stepped`: sessions whose time moves only by grants of a client.
//!
//! This file is the server: it accepts connections and dispatches requests.

mod client;
mod controlled;
mod enter;
mod error;
mod granter;
mod grants;
mod hold;
mod hosts;
mod link;
mod obey;
pub(crate) mod protocol;
mod stepped;
mod until;
mod until_hosts;
mod watching;
mod why;
mod words;

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use timeloom_sys::own;
use tracing::{Level, debug, enabled};

use crate::error::GuestError;
use crate::linux::spare::with_spare;
use crate::names::{Found, find, runtime_directory, socket_path};
pub use client::{ControlError, EnteredCommand, SessionHold, connect, enter, hold};
pub use controlled::{Controlled, HostRights, Stepped, Welcome};
pub use error::{HoldError, RunUntilError};
pub use granter::end_grants;
pub use grants::{GrantTotals, GranterCheck, Grants};
pub use link::LinkProperties;
use obey::obey;
pub use protocol::{
    EnterCommand, GrantedState, HoldText, HostRequest, HostText, ProcessText, Request, Response,
    StatusText,
};
use protocol::{Lines, send};
pub use stepped::SteppedSession;
pub use until::run_until;
pub use until_hosts::{HostTarget, run_hosts_until};
pub use watching::StatusConnection;
pub use why::{
    Cause, ComponentText, EventOrigin, NextEvent, ThreadActivity, ThreadCounts, ThreadText, Why,
};
pub use words::{RequestedInstant, WordError, parse_factor, parse_instant, parse_span};

/// Opens the session's socket and serves it in a thread until the process ends.
///
/// Fails if a running session has the same name, or if other users can access the directory of
/// sockets.
pub fn serve<C: Controlled + 'static>(controlled: &Arc<C>) -> Result<(), GuestError> {
    let session = controlled.session();
    let directory = runtime_directory();
    own::make(&directory, 0o700).map_err(|error| GuestError::Usage(error.to_string()))?;
    let path = socket_path(session.name());
    if !matches!(find(&path), Found::Nobody) {
        return Err(GuestError::Usage(format!(
            "a session named `{}` is already running",
            session.name()
        )));
    }
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)
        .map_err(GuestError::system(format!("opening {}", path.display())))?;
    session.has_socket.store(true, Ordering::Relaxed);
    let controlled = Arc::downgrade(controlled);
    let accept = move || {
        loop {
            let Ok((stream, _)) = with_spare(|| listener.accept()) else {
                // No descriptor or no memory is left: other threads may free some.
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            };
            let controlled = controlled.clone();
            // A silent client must not block other clients. (If no thread can be started, the
            // connection is closed.)
            let _ = std::thread::Builder::new().spawn(move || answer(&controlled, stream));
        }
    };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(accept)
        .map_err(GuestError::system(
            "starting a thread for the control socket",
        ))?;
    Ok(())
}

fn answer<C: Controlled>(controlled: &Weak<C>, mut stream: UnixStream) {
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(5)));
    let Ok(mut lines) = with_spare(|| stream.try_clone()).map(Lines::new) else {
        return;
    };
    let stepped = controlled
        .upgrade()
        .and_then(|held| held.stepped().map(|stepped| Arc::clone(stepped.grants())));
    let grants = |request: &Request| {
        let is_grant = |it: &Request| matches!(it, Request::Step { .. } | Request::RunUntil { .. });
        *request == Request::Attach || is_grant(request.inner())
    };
    while let Some(request) = lines.next_request() {
        // The variables of a command that enters the session may be secrets.
        if enabled!(Level::DEBUG)
            && let Some(effect) = request.as_ref().ok().and_then(|it| it.inner().effect())
        {
            debug!(client = granter::peer(&stream), effect, "request");
        }
        // After its first request, a client may wait for any time before it sends the next.
        let _ = stream.set_read_timeout(None);
        let response = match (request, &stepped) {
            (Ok(Request::Enter(entry)), _) => {
                return enter::serve(controlled, stream, lines, &entry);
            }
            (Ok(request), Some(by)) if grants(&request) => {
                return granter::serve(controlled, by, stream, lines, request);
            }
            (Ok(Request::Hold { reason }), _) => {
                return hold::serve(controlled, stream, lines, &reason);
            }
            (Ok(request), _) => {
                let _answering = Answering::of(controlled);
                let response = obey(controlled, request).unwrap_or_else(Response::from);
                send(&mut stream, &response);
                continue;
            }
            (Err(refusal), _) => refusal.into(),
        };
        send(&mut stream, &response);
    }
}

/// Guard: while it exists, the session counts one more request that is being answered.
struct Answering(Option<Arc<AtomicUsize>>);

impl Answering {
    fn of<C: Controlled>(controlled: &Weak<C>) -> Self {
        let held = controlled.upgrade();
        let count = held.map(|held| Arc::clone(&held.session().answering));
        if let Some(count) = &count {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Self(count)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
