//! Hold on a session that lasts as long as the connection on which it was requested.

use std::os::unix::net::UnixStream;
use std::sync::Weak;

use crate::control::controlled::Controlled;
use crate::control::error::Refusal;
use crate::control::granter::peer;
use crate::control::protocol::{Lines, Response, StatusText, send};

/// Holds the session and sends its status. Releases the session when the client disconnects or
/// sends any data.
pub(super) fn serve<C: Controlled>(
    controlled: &Weak<C>,
    mut stream: UnixStream,
    mut lines: Lines,
    reason: &str,
) {
    let requester = peer(&stream);
    // No reference to the session is kept during the hold: the session ends when its owner drops
    // it.
    let held = match controlled.upgrade() {
        Some(session) => session.hold(&requester, reason).map_err(Refusal::from),
        None => Err(Refusal::Ended),
    };
    let (hold, response) = match (held, controlled.upgrade()) {
        (Ok(hold), Some(session)) => {
            let status = session.session().status();
            (Some(hold), Response::Ok(StatusText::brief(status)))
        }
        (Ok(_), None) => (None, Refusal::Ended.into()),
        (Err(refusal), _) => (None, refusal.into()),
    };
    send(&mut stream, &response);
    if hold.is_some() {
        let _ = lines.next_request();
    }
    drop(hold);
}
