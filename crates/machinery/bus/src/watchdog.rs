//! Names those who keep the testbed standing for long.

use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};

use crate::bus::Inner;

/// One who holds the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who.
    pub requester: String,
    /// What for.
    pub reason: String,
    /// When the hold was granted.
    pub since: Instant<Wall>,
}

/// The testbed has stood for longer than the stated limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongStand {
    /// When it was first asked to stand, without a break since.
    pub since: Instant<Wall>,
    /// For how long that is by now.
    pub stood_for: Duration,
    /// Who holds it now, the longest first. Empty: the pause itself is stuck.
    pub holders: Vec<Holder>,
}

/// What is called with it.
pub(crate) type ReportLongStand = Box<dyn Fn(LongStand) + Send>;

/// A thread that looks at the bus four times per limit. It looks rather than
/// being told, so that a hold costs nothing for being watched.
pub(crate) struct Watchdog {
    /// Dropped with the bus, which ends the thread.
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn start(bus: Weak<Inner>, limit: Duration, report: ReportLongStand) -> Self {
        let (alive, gone) = channel::<()>();
        let look_every = std::time::Duration::from_nanos((limit.as_ns().max(4) / 4) as u64);
        // Without the thread nobody would be named, and nothing else changes;
        // a machine that cannot start one has said so elsewhere already.
        let _ = thread::Builder::new()
            .name("bus-watchdog".to_owned())
            .spawn(move || {
                let mut next_report: Option<(Instant<Wall>, Instant<Wall>)> = None;
                while gone.recv_timeout(look_every) == Err(RecvTimeoutError::Timeout) {
                    // The bus must not outlive its last user in here, so it is
                    // released before the callback, which may take its time.
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
