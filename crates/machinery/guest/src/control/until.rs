//! Runs of a session until a given instant of its clock.
//!
//! The clock stops at the instant by itself, for every reader. A thread waits here for that and
//! then stops the processes too. The control socket calls this module in one thread per request or
//! granter.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::Stop;
use crate::control::controlled::Controlled;
use crate::control::error::{HoldError, RunUntilError};
use crate::session::Session;

/// Lets `controlled` run until its clock shows `target`, then pauses it. Returns the time from the
/// stop of the clock to the stop of all processes.
///
/// # Errors
/// Fails if `target` is in the past, if a run to another instant is in progress, or if the session
/// was paused or ended before `target`.
pub fn run_until<C: Controlled>(
    controlled: &Weak<C>,
    target: Instant<Virtual>,
) -> Result<Duration, RunUntilError> {
    let session = controlled.upgrade().ok_or(RunUntilError::Ended)?;
    let clock = Arc::clone(session.session().clock());
    // The stop is requested only after the others know of it: an agreed pause may be at a later
    // instant. Until then a second run to an instant is refused.
    let plan = clock.plan_stop(target)?;
    let was_held = session.is_held();
    let shared = session.share_stop(target);
    drop(session);
    let go = |session: &C| match session.is_held() {
        true => session.resume(),
        false => Ok(()),
    };
    let travelled = match shared {
        Ok(()) => travel(controlled, target, Some(plan), go, C::pause, || false),
        Err(error) => Err(error.into()),
    };
    clock.drop_plan(plan);
    if let Some(session) = controlled.upgrade() {
        session.end_shared_stop();
        // A run that could not begin leaves the session as it was.
        let could_not = matches!(
            travelled,
            Err(RunUntilError::Session(_) | RunUntilError::Hold(_))
        );
        if could_not && !was_held && session.is_held() {
            // The session may have been resumed meanwhile.
            let _ = session.resume();
        }
    }
    match travelled? {
        Some(stood_for) => Ok(stood_for),
        None => Err(RunUntilError::Ended),
    }
}

/// Lets `controlled` run until its clock shows `target`; `go` starts it and `stand` stops it.
/// Returns the time from the stop of the clock to the stop of all processes. `over` is called
/// whenever the clock is woken; if it returns true first, returns `None`. With `plan`, the stop was
/// reserved before.
pub(crate) fn travel<C: Controlled>(
    controlled: &Weak<C>,
    target: Instant<Virtual>,
    plan: Option<Stop>,
    go: impl FnOnce(&C) -> Result<(), HoldError>,
    stand: impl FnOnce(&C) -> Result<(), HoldError>,
    over: impl Fn() -> bool,
) -> Result<Option<Duration>, RunUntilError> {
    // No reference is kept during the wait: the session ends when its owner drops it.
    let session = controlled.upgrade().ok_or(RunUntilError::Ended)?;
    let clock = Arc::clone(session.session().clock());
    let closing = Arc::clone(&session.session().closing);
    let paused = || RunUntilError::Paused {
        at: clock.now() - Instant::ZERO,
    };
    let stop = match plan {
        Some(plan) if !clock.stop_as_planned(plan)? => return Err(paused()),
        Some(plan) => plan,
        None => clock.stop_at(target)?,
    };
    if let Err(error) = go(&session) {
        clock.forget_stop();
        return Err(error.into());
    }
    drop(session);
    let gone = || over() || closing.load(Ordering::SeqCst) || controlled.strong_count() == 0;
    let reached = clock.wait_until_in_the_background(target, || gone() || clock.is_forgotten(stop));
    if !reached && gone() {
        return Ok(None);
    }
    if !reached || clock.is_forgotten(stop) {
        return Err(paused());
    }
    let stood = stand(&*controlled.upgrade().ok_or(RunUntilError::Ended)?);
    let stood_for = clock.standing_for();
    clock.forget_stop();
    stood?;
    Ok(Some(stood_for.unwrap_or(Duration::ZERO)))
}

/// Returns the virtual time `span_ns` nanoseconds after the session's present time.
pub(crate) fn ahead(session: &Session, span_ns: i64) -> Result<Instant<Virtual>, RunUntilError> {
    if span_ns <= 0 {
        return Err(RunUntilError::NoSpan);
    }
    let now_ns = session.clock().now().as_ns();
    let at_ns = now_ns
        .checked_add(span_ns)
        .ok_or(RunUntilError::SpanTooLong)?;
    Ok(Instant::from_ns(at_ns))
}
