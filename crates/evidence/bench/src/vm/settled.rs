//! Waiting until a timeline has reached its final quality, natively and in guests.
//!
//! A daemon that has just started has an interval of a second and more, and so has a guest that has
//! not yet measured its counter. The wait therefore depends on both, not on time: on the daemon's
//! binding, and on the readings.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use timeloom_time::Duration as Length;
use timeloom_timeline_client::{Change, Requirement, Timeline};

/// Interval that a timeline must keep before it is measured, before and after its estimate.
pub(super) const WITHIN: Length = Length::from_ms(1);

/// On a machine that is too busy, the figures are those of a wider timeline, and a remark says so.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the timeline keeps [`WITHIN`], by its daemon and by this reader; returns false if it
/// does not.
pub(super) fn settled(timeline: &Timeline) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let (tell, told) = channel();
    // A daemon refuses what its sources do not permit yet, such as a chronyd that has just started.
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
        // The reader checks by itself, because a daemon does not know a guest's counter.
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
    // A single reading might come just after a measurement.
    (0..READINGS).all(|turn| {
        if turn > 0 {
            std::thread::sleep(LOOK);
        }
        narrow(turn)
    })
}

const READINGS: u32 = 10;
const LOOK: Duration = Duration::from_millis(100);
