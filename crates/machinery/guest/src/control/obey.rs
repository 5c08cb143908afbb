//! Execution of a client's request on a session.

use std::path::Path;
use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant};

use crate::control::controlled::Controlled;
use crate::control::error::Refusal;
use crate::control::hosts;
use crate::control::protocol::{ProcessText, Request, Response, StatusText};
use crate::control::until::{ahead, run_until};

/// Executes a request of a client and returns the answer.
pub(crate) fn obey<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Response, Refusal> {
    if let Request::By { who, request } = request {
        return obey_as(controlled, &who, *request);
    }
    let lists = request == Request::Query;
    let names_all = lists || matches!(request, Request::Host { .. });
    let stopped_after = carry_out(controlled, request)?;
    let controlled = controlled.upgrade().ok_or(Refusal::Ended)?;
    let session = controlled.session();
    let listed = lists.then(|| session.processes()).transpose()?;
    let status = session.status();
    Ok(Response::Ok(StatusText {
        stopped_after_ns: stopped_after.map(Duration::as_ns),
        holds: controlled.holds(),
        directory: controlled.directory().map(Path::to_owned),
        processes: listed.map(|all| all.into_iter().map(ProcessText::from).collect()),
        ..match names_all {
            true => status.into(),
            false => StatusText::brief(status),
        }
    }))
}

/// Executes a request of a named requester, and records it.
fn obey_as<C: Controlled>(
    controlled: &Weak<C>,
    who: &str,
    request: Request,
) -> Result<Response, Refusal> {
    if matches!(request, Request::By { .. }) {
        return Err(Refusal::ByTwice);
    }
    let effect = request.effect();
    let response = obey(controlled, request)?;
    record(controlled, who, effect.as_deref());
    Ok(response)
}

/// Records the effect of a request that was executed.
pub(super) fn record<C: Controlled>(controlled: &Weak<C>, who: &str, effect: Option<&str>) {
    if let (Some(controlled), Some(effect)) = (controlled.upgrade(), effect) {
        let who: String = who.chars().take(LONGEST_NAME).collect();
        controlled.acted(&who, effect);
    }
}

/// Maximum length of a requester's name in an event, in characters.
const LONGEST_NAME: usize = 80;

/// Executes a request. If the session was to stop at an instant, returns the time from the stop of
/// the clock to the stop of all processes.
fn carry_out<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Option<Duration>, Refusal> {
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let session = held.session();
    let changes_the_clock = matches!(
        request,
        Request::Dilate { .. }
            | Request::Step { .. }
            | Request::RunUntil { .. }
            | Request::Host { .. }
    );
    if changes_the_clock && held.is_agreed() {
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
        Request::Dilate { factor } => session.dilate(factor)?,
        Request::Query | Request::Status => {}
        Request::Watch => held.flush(),
        Request::By { .. } => return Err(Refusal::ByTwice),
        Request::Register { pid } => session.register(pid)?,
        Request::Unregister { pid } => session.unregister(pid)?,
        Request::Leave { engine } => held.leave(&engine)?,
        Request::Join { engine } => held.join(&engine)?,
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
