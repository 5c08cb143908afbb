//! Execution of a client's request on a session.

use std::path::Path;
use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant, Virtual};

use crate::control::controlled::Controlled;
use crate::control::error::Refusal;
use crate::control::hosts;
use crate::control::protocol::{ProcessText, Request, Response, StatusText};
use crate::control::until::{ahead, run_until};
use crate::control::why::why;
use crate::session::Session;

/// Executes a request of a client and returns the answer.
pub(crate) fn obey<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Response, Refusal> {
    if let Request::By { requester, request } = request {
        let obey = |request| obey(controlled, request);
        return obey_as(controlled, &requester, *request, obey);
    }
    let (lists, explains) = (request == Request::Query, request == Request::Why);
    let names_all = lists || matches!(request, Request::Host { .. });
    let stopped_after = carry_out(controlled, request)?;
    let why = explains.then(|| why(controlled)).transpose()?;
    let controlled = controlled.upgrade().ok_or(Refusal::Ended)?;
    let session = controlled.session();
    let listed = lists.then(|| session.processes()).transpose()?;
    let status = session.status();
    Ok(Response::Ok(StatusText {
        stopped_after_ns: stopped_after.map(Duration::as_ns),
        holds: controlled.holds(),
        directory: controlled.directory().map(Path::to_owned),
        processes: listed.map(|all| all.into_iter().map(ProcessText::from).collect()),
        why: why.map(Box::new),
        ..match names_all {
            true => status.into(),
            false => StatusText::brief(status),
        }
    }))
}

/// Executes a request of a named requester by `obey`, and records its effect.
pub(super) fn obey_as<C: Controlled>(
    controlled: &Weak<C>,
    requester: &str,
    request: Request,
    obey: impl FnOnce(Request) -> Result<Response, Refusal>,
) -> Result<Response, Refusal> {
    let effect = request.effect().ok_or(Refusal::NoEffect)?;
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let target = target(held.session(), &request);
    drop(held);
    let response = obey(request)?;
    if let Some(controlled) = controlled.upgrade() {
        let cut = target.and_then(|target| cut_short(&response, target));
        let mut effect: String = effect.chars().take(LONGEST_EFFECT).collect();
        effect += &cut.unwrap_or_default();
        let requester: String = requester.chars().take(LONGEST_NAME).collect();
        controlled.acted(&requester, &effect);
    }
    Ok(response)
}

/// Returns the instant until which a request lets the session run.
fn target(session: &Session, request: &Request) -> Option<Instant<Virtual>> {
    match request {
        Request::Step { span_ns } => ahead(session, *span_ns).ok(),
        Request::RunUntil { at_ns, relative } => match relative {
            true => ahead(session, *at_ns).ok(),
            false => Some(Instant::from_ns(*at_ns)),
        },
        _ => None,
    }
}

/// Returns a clause for the message if the session ended before `target`.
fn cut_short(response: &Response, target: Instant<Virtual>) -> Option<String> {
    let Response::Ok(status) = response else {
        return None;
    };
    let has_ended = status.standing.is_some_and(|standing| standing.ended);
    let reached = Duration::from_ns(status.virtual_ns);
    (has_ended && Instant::ZERO + reached < target)
        .then(|| format!(", cut short by the end of the session at {reached}"))
}

/// Maximum length of a requester's name in an event, in characters.
const LONGEST_NAME: usize = 80;
/// Maximum length of the description of an effect in an event, in characters. A request for many
/// hosts can exceed it.
const LONGEST_EFFECT: usize = 300;

/// Executes a request. If the session was to stop at an instant, returns the time from the stop of
/// the clock to the stop of all processes.
fn carry_out<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Option<Duration>, Refusal> {
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let session = held.session();
    if matches!(request, Request::Host { .. }) && held.is_agreed() {
        return Err(Refusal::Agreed);
    }
    match request {
        Request::Pause => {
            held.pause()?;
            // A pause by the user cancels a requested stop. A grant remains in force, and is used
            // after the pause.
            if held.stepped().is_none() {
                session.clock().forget_stop();
            }
        }
        Request::Resume => held.resume()?,
        Request::Attach => return Err(Refusal::NotStepped),
        // This is accepted only as the first request on a connection, which then serves nothing
        // else.
        Request::Enter(_) => return Err(Refusal::EnterAlone),
        Request::Hold { .. } => return Err(Refusal::HoldBeside),
        Request::Dilate { factor } => held.dilate(factor)?,
        Request::Query | Request::Status | Request::Why => {}
        Request::Watch => held.flush(),
        Request::By { .. } => return Err(Refusal::NoEffect),
        Request::Register { pid } => session.register(pid)?,
        Request::Unregister { pid } => session.unregister(pid)?,
        Request::Leave { engine } => held.leave(&engine)?,
        Request::Join { engine } => held.join(&engine)?,
        Request::Attack { id, start } => held.change_attack(&id, start)?,
        Request::Link { link, change } => held.change_link(&link, &change)?,
        Request::Skip { on } => Arc::clone(&held).skip(on)?,
        Request::Host { hosts, request } => {
            let named = session.hosts_named(&hosts)?;
            drop(held);
            return hosts::obey(controlled, &named, request);
        }
        Request::Step { span_ns } => {
            if !held.is_held() {
                return Err(Refusal::Running);
            }
            let target = ahead(session, span_ns)?;
            drop(held);
            return Ok(Some(run_until(controlled, target)?));
        }
        Request::RunUntil { at_ns, relative } => {
            let target = match relative {
                true => ahead(session, at_ns)?,
                false => Instant::from_ns(at_ns),
            };
            drop(held);
            return Ok(Some(run_until(controlled, target)?));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_the_end_cut_short_says_so() {
        let answer = |virtual_ms: i64, ended: bool| {
            let text = format!(
                r#"{{"ok":{{"name":"lab","virtual_ns":{},"utc_ns":0,"wall_ns":0,
                "paused_total_ns":0,"paused":true,"dilation":1.0,
                "standing":{{"next_deadline_ns":null,"ended":{ended},"grants":1}}}}}}"#,
                virtual_ms * 1_000_000
            );
            serde_json::from_str(&text).expect("an answer")
        };
        let target = Instant::from_ns(2_000_000_000);
        assert_eq!(cut_short(&answer(2000, false), target), None);
        assert_eq!(cut_short(&answer(2000, true), target), None, "just reached");
        assert_eq!(
            cut_short(&answer(1050, true), target).as_deref(),
            Some(", cut short by the end of the session at 1.05 s")
        );
        assert_eq!(cut_short(&Response::Exited(0), target), None);
    }
}
