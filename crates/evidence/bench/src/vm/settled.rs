//! Waiting until a timeline is as good as it gets, natively and in guests.
//!
//! A daemon that has only begun has an interval of a second and more, and so has a guest that
//! has not yet measured its counter. So it is waited for by what the two say: the daemon by
//! its binding, the reader by what it reads. Not by time.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use timeloom_time::Duration as Length;
use timeloom_timeline_client::{Change, Requirement, Timeline};

/// What a timeline must keep before it is measured, before and after its estimate.
pub(super) const WITHIN: Length = Length::from_ms(1);

/// On a machine that is too busy for it the figures are of a wider timeline, and it is said.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether the timeline keeps [`WITHIN`], by its daemon and by this reader; waited for.
pub(super) fn settled(timeline: &Timeline) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let (tell, told) = channel();
    // A daemon refuses what its sources do not yet allow: a chronyd that has only begun.
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
        // The reader looks by itself: a daemon does not know a guest's counter.
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
    // Not by one that happened to come just after a measurement.
    (0..READINGS).all(|turn| {
        if turn > 0 {
            std::thread::sleep(LOOK);
        }
        narrow(turn)
    })
}

const READINGS: u32 = 10;
const LOOK: Duration = Duration::from_millis(100);
