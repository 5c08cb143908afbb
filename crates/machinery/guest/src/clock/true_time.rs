//! What the session knows and its hosts do not: true time, beside a host's crystal.

use std::sync::atomic::Ordering;

use timeloom_time::{Core, Duration, Instant, Utc, Virtual};

use super::{Clock, Host};

/// One instant of a session, and what a host's crystal shows at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueTime {
    /// The instant, on the session's own scale.
    pub at: Instant<Virtual>,
    /// True civil time then.
    pub utc: Instant<Utc>,
    /// TAI minus UTC at the start of the session: the value at its start date, if it has one of its
    /// own; else the value of the machine's kernel, zero if no daemon had set it.
    pub tai_ahead: Duration,
    /// CLOCK_MONOTONIC_RAW of the host then, as its guests read it: to the
    /// nanosecond that they read, for it is from the same line.
    pub raw: Instant<Core>,
    /// The host's page's
    /// [`disruptions`](timeloom_page::ClockPage::disruptions) then.
    pub disruptions: u64,
}

impl Clock {
    /// True time now, and what the host's crystal shows at that very instant.
    pub fn true_time(&self, host: &Host) -> TrueTime {
        // Nobody publishes a line while this is held: both are of one counter value.
        let state = self.lock();
        let ticks = Instant::from_ticks(self.counter.ticks());
        let at = state.published.at(ticks);
        let raw = state.hosts[host.index()].raw_at(ticks);
        TrueTime {
            at,
            utc: state.civil().at(at),
            tai_ahead: Duration::from_s(state.offsets.tai_s.into()),
            raw,
            disruptions: host.page().page().disruptions().load(Ordering::Relaxed),
        }
    }

    /// Returns the instant of the session at which CLOCK_MONOTONIC_RAW of `host` first showed
    /// `raw`, as read by its guests; `None` if that is too long ago.
    pub fn instant_of_raw(&self, host: &Host, raw: Instant<Core>) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let at = state.hosts[host.index()].raw_history.first_showing(raw)?;
        let now = state
            .published
            .at(Instant::from_ticks(self.counter.ticks()));
        Some(at.min(now))
    }

    /// The number that was drawn for this session: with that of a host it names the
    /// crystal that a timeline's page counts by.
    pub fn number(&self) -> u64 {
        self.number
    }
}
