//! Server's side of a granter's connection: its requests are served in order, and its role ends
//! with the connection.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration as StdDuration;

use timeloom_sys::local;
use timeloom_time::{Duration, Instant, Virtual};

use crate::control::controlled::{Controlled, Stepped};
use crate::control::error::{Refusal, RunUntilError, SeatError};
use crate::control::grants::Grants;
use crate::control::obey::{obey, obey_as};
use crate::control::protocol::{GrantedState, Lines, Request, Response, StatusText, send};
use crate::control::until::{ahead, travel};
use crate::linux::processes;
use crate::session::Session;

/// Ends the granting of time when the session ends. A grant in progress is answered first. A
/// granter that is busy computing learns of the end at its next request: if the end was planned
/// (`as_planned`), the answer says that the session has ended; otherwise the connection is closed.
pub fn end_grants<C: Controlled>(controlled: &C, as_planned: bool) {
    let Some(stepped) = controlled.stepped() else {
        return;
    };
    let grants = stepped.grants();
    // The status is built before the grants are locked, since it needs that lock.
    let answer = Response::Ok(stands(controlled.session(), grants, None, true));
    grants.close(as_planned, |connection| send(connection, &answer));
}

/// Makes the client, whose first request is `first`, the granter and serves it until it
/// disconnects; or refuses the request.
pub(crate) fn serve<C: Controlled>(
    controlled: &Weak<C>,
    grants: &Arc<Grants>,
    mut stream: UnixStream,
    mut lines: Lines,
    first: Request,
) {
    let seated = stream
        .try_clone()
        .map_err(SeatError::Connection)
        .and_then(|connection| grants.seat(peer(&stream), connection));
    let _seat = match seated {
        Ok(seat) => seat,
        Err(error) => return send(&mut stream, &Refusal::Seat(error).into()),
    };
    while grants.is_preparing() {
        if has_hung_up(&stream) {
            return;
        }
        grants.wait_until_open(HUNG_UP_EVERY);
    }
    let _ = stream.set_read_timeout(None);
    let mut next = Some(Ok(first));
    while let Some(request) = next {
        let answering = grants.answering();
        let response = match request {
            Ok(request) => answer(controlled, grants, request),
            Err(refusal) => Err(refusal),
        }
        .unwrap_or_else(Response::from);
        send(&mut stream, &response);
        drop(answering);
        next = lines.next_request();
    }
}

fn answer<C: Controlled>(
    controlled: &Weak<C>,
    grants: &Grants,
    request: Request,
) -> Result<Response, Refusal> {
    let stood_for = match request {
        Request::Attach => None,
        Request::Step { span_ns } => {
            let target = until(controlled, span_ns, true)?;
            grant(controlled, grants, target)?
        }
        Request::RunUntil { at_ns, relative } => {
            let target = until(controlled, at_ns, relative)?;
            grant(controlled, grants, target)?
        }
        Request::By { requester, request } => {
            let answer = |request| answer(controlled, grants, request);
            return obey_as(controlled, &requester, *request, answer);
        }
        other => return obey(controlled, other),
    };
    let controlled = controlled.upgrade().ok_or(Refusal::Ended)?;
    let session = controlled.session();
    let ended = grants.is_over() || grants.ends_at(session.clock().now());
    if ended {
        grants.note_that_the_end_is_known();
    }
    let standing = stands(session, grants, stood_for, ended);
    Ok(Response::Ok(standing))
}

/// Returns the session's status in the form for the granter.
fn stands(
    session: &Session,
    grants: &Grants,
    stood_for: Option<Duration>,
    ended: bool,
) -> StatusText {
    StatusText {
        stopped_after_ns: stood_for.map(Duration::as_ns),
        standing: Some(GrantedState {
            next_deadline_ns: session.next_deadline().map(Instant::as_ns),
            ended,
            grants: grants.tally().grants,
        }),
        ..StatusText::brief(session.status())
    }
}

fn until<C: Controlled>(
    controlled: &Weak<C>,
    ns: i64,
    relative: bool,
) -> Result<Instant<Virtual>, Refusal> {
    let session = controlled.upgrade().ok_or(Refusal::Ended)?;
    match relative {
        true => Ok(ahead(session.session(), ns)?),
        false => Ok(Instant::from_ns(ns)),
    }
}

/// Lets the session run until `target`, or until its end if that is earlier. Returns the time from
/// the stop of the clock to the stop of all processes. Returns `None` if the session ended as
/// planned before `target`.
fn grant<C: Controlled>(
    controlled: &Weak<C>,
    grants: &Grants,
    target: Instant<Virtual>,
) -> Result<Option<Duration>, Refusal> {
    if grants.is_over() {
        return Err(Refusal::Ended);
    }
    let target = grants.within_the_end(target);
    fn stepped<C: Controlled>(session: &C) -> &dyn Stepped {
        session.stepped().expect("what has grants is stepped")
    }
    let mut began = false;
    let went = travel(
        controlled,
        target,
        None,
        |session| {
            began = true;
            grants.count(true);
            stepped(session).go(target)
        },
        |session| stepped(session).stand(),
        || grants.is_over(),
    );
    if began {
        grants.count(false);
    }
    match went? {
        Some(stood_for) => Ok(Some(stood_for)),
        None if grants.is_over_as_planned() => Ok(None),
        None => Err(RunUntilError::Ended.into()),
    }
}

/// Returns a description of the peer process for messages.
pub(crate) fn peer(stream: &UnixStream) -> String {
    match local::peer(stream).ok().and_then(|peer| peer.pid) {
        Some(pid) => format!("{} ({pid})", processes::name(pid)),
        None => "a process".to_owned(),
    }
}

/// Returns true if the peer has closed the connection.
pub(crate) fn has_hung_up(stream: &UnixStream) -> bool {
    let mut poll = libc::pollfd {
        fd: stream.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: passes one descriptor that we own; the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// Interval at which a closed connection is detected while a session starts.
const HUNG_UP_EVERY: StdDuration = StdDuration::from_millis(200);
