//! Waiting until a timeline has reached its final quality, natively and in guests.
//!
//! A daemon that has just started has an interval of a second or more, and so has a guest that has
//! not measured its counter yet. The wait therefore does not end after a fixed time: it depends on
//! the daemon's binding and on the readings.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use timeloom_time::Duration as Length;
use timeloom_timeline::{Change, Requirement, Timeline};

/// Distance from the estimate to both ends of the interval that a timeline must keep before
/// measurements.
pub(super) const WITHIN: Length = Length::from_ms(1);

/// Maximum wait. On a machine that is too busy, a timeline with a wider interval is measured, and a
/// remark says so.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the timeline keeps [`WITHIN`], both for its daemon and for this reader. Returns
/// false if it does not.
pub(super) fn settled(timeline: &Timeline) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let (tell, told) = channel();
    // The daemon refuses a binding that its sources do not permit yet, such as a chronyd that has
    // just started.
    let binding = loop {
        match timeline.bind(Requirement::within(WITHIN)) {
            Ok(binding) => break binding,
            Err(_) if Instant::now() < deadline => std::thread::sleep(LOOK),
            Err(_) => return false,
        }
    };
    let Ok(_watch) = binding.subscribe(move |change| drop(tell.send(change))) else {
        return false;
    };
    let mut is_kept = false;
    while Instant::now() < deadline {
        // The reader checks the interval itself, because the daemon does not know a guest's
        // counter.
        match told.recv_timeout(LOOK) {
            Ok(change) => is_kept = change == Change::Restored,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(_) => return false,
        }
        if is_kept && is_narrow(timeline) {
            return true;
        }
    }
    false
}

fn is_narrow(timeline: &Timeline) -> bool {
    let within_ns = WITHIN.as_ns().unsigned_abs();
    let narrow = |_| {
        let reading = timeline.read_ns();
        reading.is_ok_and(|it| it.bounded && it.below_ns.max(it.above_ns) <= within_ns)
    };
    // A single reading might be good only because it follows a measurement directly.
    (0..READINGS).all(|turn| {
        if turn > 0 {
            std::thread::sleep(LOOK);
        }
        narrow(turn)
    })
}

const READINGS: u32 = 10;
const LOOK: Duration = Duration::from_millis(100);
