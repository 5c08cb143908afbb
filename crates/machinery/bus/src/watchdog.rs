//! Watchdog that reports the holders when they pause the testbed for long.

use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};

use crate::bus::Inner;

/// Requester that has a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the requester.
    pub requester: String,
    /// Reason that the requester gave.
    pub reason: String,
    /// Wall time at which the hold was granted.
    pub since: Instant<Wall>,
}

/// Report that the testbed has been paused for longer than the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPause {
    /// Wall time at which the pause began.
    pub since: Instant<Wall>,
    /// Duration of the pause until the report.
    pub stood_for: Duration,
    /// Requesters that have a hold, the longest hold first. If it is empty, the pause or resume
    /// itself is stuck.
    pub holders: Vec<Holder>,
}

/// Function that receives the report.
pub(crate) type ReportLongStand = Box<dyn Fn(LongPause) + Send>;

/// Thread that checks the bus four times per limit. The thread polls, so that taking and releasing
/// a hold needs no additional work.
pub(crate) struct Watchdog {
    /// Sender that is dropped together with the bus, which ends the thread.
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn start(bus: Weak<Inner>, limit: Duration, report: ReportLongStand) -> Self {
        let (alive, gone) = channel::<()>();
        let look_every = std::time::Duration::from_nanos((limit.as_ns().max(4) / 4) as u64);
        // If the thread cannot be started, there are no reports, and nothing else changes. A
        // machine that cannot start a thread has reported that elsewhere already.
        let _ = thread::Builder::new()
            .name("bus-watchdog".to_owned())
            .spawn(move || {
                let mut next_report: Option<(Instant<Wall>, Instant<Wall>)> = None;
                while gone.recv_timeout(look_every) == Err(RecvTimeoutError::Timeout) {
                    // The bus must not outlive its last user because of this thread. The thread
                    // therefore releases its reference before it calls `report`, which may take
                    // long.
                    let Some(standing) = bus.upgrade().map(|bus| bus.standing()) else {
                        continue;
                    };
                    let Some((since, holders)) = standing else {
                        continue;
                    };
                    let due = match next_report {
                        Some((same, due)) if same == since => due,
                        _ => since + limit,
                    };
                    let now = wall_now();
                    next_report = Some((since, due));
                    if now >= due {
                        next_report = Some((since, now + limit));
                        report(LongPause {
                            since,
                            stood_for: now - since,
                            holders,
                        });
                    }
                }
            });
        Self { _alive: alive }
    }
}
