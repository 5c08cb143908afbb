//! Letting a session run until an instant of its clock, and no further.
//!
//! The clock stops there by itself, for every reader; here somebody waits for
//! that and stops the processes too. Called by the control socket, in a thread
//! per request or granter.

use std::sync::{Arc, Weak};

use timeloom_time::{Duration, Instant, Virtual};

use crate::control::Controlled;

/// Lets `controlled` run until its clock shows `target`, then pauses it. Returns
/// for how long the clock stood before all processes did.
///
/// # Errors
/// The instant is past, another is awaited already, or somebody paused or ended
/// the session on the way.
pub fn run_until<C: Controlled>(
    controlled: &Weak<C>,
    target: Instant<Virtual>,
) -> Result<Duration, String> {
    let go = |session: &C| match session.is_held() {
        true => session.resume(),
        false => Ok(()),
    };
    match travel(controlled, target, go, C::pause, || false)? {
        Some(stood_for) => Ok(stood_for),
        None => Err(ended()),
    }
}

/// The same, set going by `go` and stopped by `stand`; `None` when it was `over`
/// first, which is asked whenever the clock is woken.
pub(crate) fn travel<C: Controlled>(
    controlled: &Weak<C>,
    target: Instant<Virtual>,
    go: impl FnOnce(&C) -> Result<(), String>,
    stand: impl FnOnce(&C) -> Result<(), String>,
    over: impl Fn() -> bool,
) -> Result<Option<Duration>, String> {
    // Not held while we wait: the session ends when its owner lets go of it.
    let session = controlled.upgrade().ok_or_else(ended)?;
    let clock = Arc::clone(session.session().clock());
    let stop = clock.stop_at(target).map_err(|error| error.to_string())?;
    if let Err(error) = go(&session) {
        clock.forget_stop();
        return Err(error);
    }
    drop(session);
    let gone = || over() || controlled.strong_count() == 0;
    let reached = clock.wait_until_in_the_background(target, || gone() || clock.is_forgotten(stop));
    if !reached && gone() {
        return Ok(None);
    }
    if !reached || clock.is_forgotten(stop) {
        return Err(format!(
            "the session was paused at {}, before that instant",
            clock.now() - Instant::ZERO
        ));
    }
    let stood = stand(&*controlled.upgrade().ok_or_else(ended)?);
    let stood_for = clock.standing_for();
    clock.forget_stop();
    stood.map(|()| Some(stood_for.unwrap_or(Duration::ZERO)))
}

fn ended() -> String {
    "the session ended before that instant".to_owned()
}
