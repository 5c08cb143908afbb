//! Reports holders that pause the testbed for long.

use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};

use crate::bus::Inner;

/// Holder of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the requester.
    pub requester: String,
    /// Purpose of the hold.
    pub reason: String,
    /// Time of the grant.
    pub since: Instant<Wall>,
}

/// Report that the testbed has been paused for longer than the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongStand {
    /// Time of the first request, without a break since.
    pub since: Instant<Wall>,
    /// Duration of the pause until now.
    pub stood_for: Duration,
    /// Present holders, the longest first. Empty: the pause itself is stuck.
    pub holders: Vec<Holder>,
}

/// Callback for the report.
pub(crate) type ReportLongStand = Box<dyn Fn(LongStand) + Send>;

/// Thread that checks the bus four times per limit. Polling makes a watched hold cost nothing.
pub(crate) struct Watchdog {
    /// Dropped with the bus, which ends the thread.
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn start(bus: Weak<Inner>, limit: Duration, report: ReportLongStand) -> Self {
        let (alive, gone) = channel::<()>();
        let look_every = std::time::Duration::from_nanos((limit.as_ns().max(4) / 4) as u64);
        // Without the thread there are no reports, and nothing else changes; a machine that cannot
        // start one has reported that elsewhere already.
        let _ = thread::Builder::new()
            .name("bus-watchdog".to_owned())
            .spawn(move || {
                let mut next_report: Option<(Instant<Wall>, Instant<Wall>)> = None;
                while gone.recv_timeout(look_every) == Err(RecvTimeoutError::Timeout) {
                    // The bus must not outlive its last user in here, so it is released before the
                    // callback, which may take long.
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
                        report(LongStand {
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
