//! Doing what a client asked of a session.

use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant};

use crate::control::controlled::Controlled;
use crate::control::hosts;
use crate::control::protocol::{Request, Response, StatusText};
use crate::control::until::{ahead, run_until};
use crate::error::GuestError;

/// Does what was asked.
pub(crate) fn obey<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Response, String> {
    let stopped_after = carry_out(controlled, request)?;
    let controlled = controlled.upgrade().ok_or("the session has ended")?;
    Ok(Response::Ok(StatusText {
        stopped_after_ns: stopped_after.map(Duration::as_ns),
        ..controlled.session().status().into()
    }))
}

/// What it took beyond, if it was to stop at an instant.
fn carry_out<C: Controlled>(
    controlled: &Weak<C>,
    request: Request,
) -> Result<Option<Duration>, String> {
    let held = controlled.upgrade().ok_or("the session has ended")?;
    let session = held.session();
    let text = |error: GuestError| error.to_string();
    match request {
        Request::Pause => {
            held.pause()?;
            // Who pauses by hand does not want it to run to somewhere any more.
            // What was granted stays so, and is used after the pause.
            if held.stepped().is_none() {
                session.clock().forget_stop();
            }
        }
        Request::Resume => held.resume()?,
        Request::Attach => return Err(NOT_STEPPED.into()),
        Request::Dilate { factor } => session.dilate(factor).map_err(text)?,
        Request::Query => {}
        Request::Register { pid } => session.register(pid).map_err(text)?,
        Request::Unregister { pid } => session.unregister(pid).map_err(text)?,
        Request::Skip { on } => Arc::clone(&held).skip(on)?,
        Request::Host { hosts, request } => {
            let named = session.hosts_named(&hosts).map_err(text)?;
            drop(held);
            return hosts::obey(controlled, &named, request);
        }
        Request::Step { span_ns } => {
            if !held.is_held() {
                return Err(
                    "the session is running; `timeloom pause` it first, or `timeloom run-until +SPAN`"
                        .into(),
                );
            }
            let target = ahead(session, span_ns)?;
            drop(held);
            return run_until(controlled, target).map(Some);
        }
        Request::RunUntil { at_ns, relative } => {
            let target = match relative {
                true => ahead(session, at_ns)?,
                false => Instant::from_ns(at_ns),
            };
            drop(held);
            return run_until(controlled, target).map(Some);
        }
    }
    Ok(None)
}

/// Why nobody can be the granter.
const NOT_STEPPED: &str = "this session runs by itself, and nobody need grant it time; begin it with `timeloom exec --stepped`, or say mode = \"stepped\" under [time] in its scenario";
