//! True time, which the session knows and its hosts do not, and the reading of a host's oscillator
//! at the same instant.

use std::sync::atomic::Ordering;

use timeloom_time::{Core, Duration, Instant, Utc, Virtual};

use super::{Clock, Host};

/// An instant of a session, with the reading of a host's oscillator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueTime {
    /// Virtual time of the session at the instant.
    pub at: Instant<Virtual>,
    /// True civil time at the instant.
    pub utc: Instant<Utc>,
    /// TAI minus UTC at the start of the session: if a start date was requested, the value at that
    /// date; otherwise the value of the machine's kernel, which is zero if no daemon has set it.
    pub tai_ahead: Duration,
    /// CLOCK_MONOTONIC_RAW of the host at the instant. It is identical to the nanosecond with the
    /// readings of the host's guests, since both are computed from the same map.
    pub raw: Instant<Core>,
    /// [`disruptions`](timeloom_abi::ClockPage::disruptions) of the host's page at the instant.
    pub disruptions: u64,
}

impl Clock {
    /// Returns true time now, with the reading of the host's oscillator at the same instant.
    pub fn true_time(&self, host: &Host) -> TrueTime {
        // No map is published while this lock is held, so both readings are of one counter value.
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

    /// Returns the virtual time at which CLOCK_MONOTONIC_RAW of `host`, as read by its guests,
    /// first showed `raw`. Returns `None` if that is too long ago.
    pub fn instant_of_raw(&self, host: &Host, raw: Instant<Core>) -> Option<Instant<Virtual>> {
        let state = self.lock();
        let at = state.hosts[host.index()].raw_history.first_showing(raw)?;
        let now = state
            .published
            .at(Instant::from_ticks(self.counter.ticks()));
        Some(at.min(now))
    }

    /// Returns the random number of this session. Together with the number of a host it identifies
    /// the oscillator that a timeline's page refers to.
    pub fn number(&self) -> u64 {
        self.number
    }
}
