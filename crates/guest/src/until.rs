//! Letting a session run until an instant of its clock, and no further.
//!
//! The clock stops there by itself, for every reader; here somebody waits for
//! that and stops the processes too. Called by the control socket, in a thread
//! per request.

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
    // Not held while we wait: the session ends when its owner lets go of it.
    let ended = || "the session ended before that instant".to_owned();
    let session = controlled.upgrade().ok_or_else(ended)?;
    let clock = Arc::clone(session.session().clock());
    let stop = clock.stop_at(target).map_err(|error| error.to_string())?;
    if session.is_held()
        && let Err(error) = session.resume()
    {
        clock.forget_stop();
        return Err(error);
    }
    drop(session);
    let reached = clock.wait_until(target, || {
        controlled.strong_count() == 0 || clock.is_forgotten(stop)
    });
    if !reached || clock.is_forgotten(stop) {
        return Err(match controlled.strong_count() {
            0 => ended(),
            _ => format!(
                "the session was paused at {}, before that instant",
                clock.now() - Instant::ZERO
            ),
        });
    }
    let paused = controlled.upgrade().ok_or_else(ended)?.pause();
    let stood_for = clock.standing_for();
    clock.forget_stop();
    paused.map(|()| stood_for.unwrap_or(Duration::ZERO))
}
