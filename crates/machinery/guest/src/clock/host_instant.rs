//! Instants on the clocks of a host. The type of an instant contains its clock.

use std::sync::atomic::Ordering::Relaxed;

use timeloom_abi::{MapCopy, PageTime};
use timeloom_clock::host::HostLine;
use timeloom_time::{Duration, Instant, Scale, Utc};

use super::host::Host;

/// Scale of a host's CLOCK_TAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tai {}

impl Scale for Tai {
    const NAME: &'static str = "tai";
}

/// A clock of a host on which programs can have deadlines: the page's time, which cannot be set,
/// CLOCK_REALTIME, or CLOCK_TAI.
pub(crate) trait Base: Scale + Copy {
    /// Returns this clock minus the page's time, in nanoseconds, from the map of a page.
    fn offset_ns(copy: &MapCopy) -> i64;

    /// Returns this clock minus the host's CLOCK_MONOTONIC. `start` is the CLOCK_MONOTONIC at which
    /// the page showed zero.
    fn ahead(line: &HostLine, start: Duration) -> Duration;
}

impl Base for PageTime {
    fn offset_ns(_: &MapCopy) -> i64 {
        0
    }

    fn ahead(_: &HostLine, start: Duration) -> Duration {
        -start
    }
}

impl Base for Utc {
    fn offset_ns(copy: &MapCopy) -> i64 {
        copy.realtime_offset_ns.load(Relaxed)
    }

    fn ahead(line: &HostLine, _: Duration) -> Duration {
        line.realtime_ahead
    }
}

impl Base for Tai {
    fn offset_ns(copy: &MapCopy) -> i64 {
        copy.tai_offset_ns.load(Relaxed)
    }

    fn ahead(line: &HostLine, _: Duration) -> Duration {
        line.tai_ahead
    }
}

/// Instant on the clock `B` of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostInstant<B: Base> {
    /// Number of the host.
    pub(crate) host: usize,
    pub(crate) at: Instant<B>,
}

impl<B: Base> HostInstant<B> {
    /// Returns the time until the instant, on its own clock; negative if the instant has passed.
    fn left(self, host: &Host) -> Duration {
        self.at - host.now_on::<B>()
    }

    /// Returns the page's time at the instant, by the present offset between the two clocks.
    fn shown(self, host: &Host) -> Instant<PageTime> {
        Instant::from_ns(self.at.as_ns().saturating_sub(host.ahead_ns::<B>()))
    }

    fn later(self, by: Duration) -> Self {
        Self {
            at: self.at + by,
            ..self
        }
    }
}

/// Deadline on one of a host's clocks, as chosen by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostDeadline {
    PageTime(HostInstant<PageTime>),
    Realtime(HostInstant<Utc>),
    Tai(HostInstant<Tai>),
}

impl HostDeadline {
    /// Returns the number of the host.
    pub(super) fn host(self) -> usize {
        match self {
            Self::PageTime(at) => at.host,
            Self::Realtime(at) => at.host,
            Self::Tai(at) => at.host,
        }
    }

    /// Returns the time until the deadline, on its own clock; negative if the deadline has passed.
    pub(crate) fn left(self, host: &Host) -> Duration {
        match self {
            Self::PageTime(at) => at.left(host),
            Self::Realtime(at) => at.left(host),
            Self::Tai(at) => at.left(host),
        }
    }

    /// Returns the page's time at the deadline, by the present offset between the two clocks.
    pub(crate) fn shown(self, host: &Host) -> Instant<PageTime> {
        match self {
            Self::PageTime(at) => at.shown(host),
            Self::Realtime(at) => at.shown(host),
            Self::Tai(at) => at.shown(host),
        }
    }

    /// Returns the deadline that is later by `by` on the same clock.
    pub(crate) fn later(self, by: Duration) -> Self {
        match self {
            Self::PageTime(at) => Self::PageTime(at.later(by)),
            Self::Realtime(at) => Self::Realtime(at.later(by)),
            Self::Tai(at) => Self::Tai(at.later(by)),
        }
    }
}

impl From<HostInstant<PageTime>> for HostDeadline {
    fn from(at: HostInstant<PageTime>) -> Self {
        Self::PageTime(at)
    }
}
