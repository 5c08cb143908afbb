//! Instants on the clocks of a host, with the clock in their type.

use std::sync::atomic::Ordering::Relaxed;

use timeloom_clock::host::HostLine;
use timeloom_page::{MapCopy, Shown};
use timeloom_time::{Duration, Instant, Scale, Utc};

use super::host::Host;

/// CLOCK_TAI of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tai {}

impl Scale for Tai {
    const NAME: &'static str = "tai";
}

/// A clock of a host that programs wait by: the page's time, which cannot be set, CLOCK_REALTIME,
/// or CLOCK_TAI.
pub(crate) trait Base: Scale + Copy {
    /// Returns the offset from the page's time, for readers of the page.
    fn offset_ns(copy: &MapCopy) -> i64;

    /// Returns the lead over the host's CLOCK_MONOTONIC, which showed `start` when the page showed
    /// zero.
    fn ahead(line: &HostLine, start: Duration) -> Duration;
}

impl Base for Shown {
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

/// An instant on the clock `B` of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostInstant<B: Base> {
    /// The host's number.
    pub(crate) host: usize,
    pub(crate) at: Instant<B>,
}

impl<B: Base> HostInstant<B> {
    /// Returns the time left; negative if the instant has passed.
    fn left(self, host: &Host) -> Duration {
        self.at - host.now_on::<B>()
    }

    /// Returns the page's time at the instant, by the present rates of its clocks.
    fn shown(self, host: &Host) -> Instant<Shown> {
        Instant::from_ns(self.at.as_ns().saturating_sub(host.ahead_ns::<B>()))
    }

    fn later(self, by: Duration) -> Self {
        Self {
            at: self.at + by,
            ..self
        }
    }
}

/// Instant on one of a host's clocks, as chosen by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostDeadline {
    Shown(HostInstant<Shown>),
    Realtime(HostInstant<Utc>),
    Tai(HostInstant<Tai>),
}

impl HostDeadline {
    /// Returns the number of the host.
    pub(super) fn host(self) -> usize {
        match self {
            Self::Shown(at) => at.host,
            Self::Realtime(at) => at.host,
            Self::Tai(at) => at.host,
        }
    }

    /// Returns the time left by its own clock; negative if the instant has passed.
    pub(crate) fn left(self, host: &Host) -> Duration {
        match self {
            Self::Shown(at) => at.left(host),
            Self::Realtime(at) => at.left(host),
            Self::Tai(at) => at.left(host),
        }
    }

    /// Returns the page's time at the instant, by the present rates of its clocks.
    pub(crate) fn shown(self, host: &Host) -> Instant<Shown> {
        match self {
            Self::Shown(at) => at.shown(host),
            Self::Realtime(at) => at.shown(host),
            Self::Tai(at) => at.shown(host),
        }
    }

    /// Returns the instant later by `by` on its own clock.
    pub(crate) fn later(self, by: Duration) -> Self {
        match self {
            Self::Shown(at) => Self::Shown(at.later(by)),
            Self::Realtime(at) => Self::Realtime(at.later(by)),
            Self::Tai(at) => Self::Tai(at.later(by)),
        }
    }
}

impl From<HostInstant<Shown>> for HostDeadline {
    fn from(at: HostInstant<Shown>) -> Self {
        Self::Shown(at)
    }
}
