//! True time, which the session knows and its hosts do not, beside a host's oscillator.

use std::sync::atomic::Ordering;

use timeloom_time::{Core, Duration, Instant, Utc, Virtual};

use super::{Clock, Host};

/// One instant of a session, with the reading of a host's oscillator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueTime {
    /// The instant, on the session's own scale.
    pub at: Instant<Virtual>,
    /// True civil time at the instant.
    pub utc: Instant<Utc>,
    /// TAI minus UTC at the start of the session: the value at its start date, if it has one of its
    /// own; else the value of the machine's kernel, zero if no daemon had set it.
    pub tai_ahead: Duration,
    /// CLOCK_MONOTONIC_RAW of the host at the instant, identical to the nanosecond with its guests'
    /// readings, since both are computed from the same line.
    pub raw: Instant<Core>,
    /// The host's page's [`disruptions`](timeloom_page::ClockPage::disruptions) at the instant.
    pub disruptions: u64,
}

impl Clock {
    /// Returns true time now, with the reading of the host's oscillator at that very instant.
    pub fn true_time(&self, host: &Host) -> TrueTime {
        // No line is published while this lock is held: both readings are of one counter value.
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

    /// Returns the random number of this session: together with that of a host it identifies the
    /// oscillator that a timeline's page counts by.
    pub fn number(&self) -> u64 {
        self.number
    }
}
