//! Configuration of a timeline.

use timeloom_time::Duration;

use super::{PollLimits, WatchLimits};
use crate::oscillator::OscillatorSpec;
use crate::quality::TimelineId;

/// Number of a source within its timeline, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub usize);

/// Assumptions on which the bounds of a timeline depend, and the timeline's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Identifier of the timeline.
    pub timeline: TimelineId,
    /// Specification of the local oscillator.
    pub oscillator: OscillatorSpec,
    /// Step of the core clock, that is, its resolution.
    pub resolution: Duration,
    /// Number of sources.
    pub sources: usize,
    /// Number of sources whose error may exceed their stated error. With 0, every source is
    /// trusted; `n` such sources are outvoted if there are `2 n + 1` sources in all.
    pub tolerated_liars: usize,
    /// True if only authenticated answers count.
    pub demand_authentication: bool,
    /// Limits of the interval between two queries to a source.
    pub poll: PollLimits,
    /// Time after an answer during which the timeline's status stays
    /// [`Status::Ok`](crate::quality::Status::Ok); three polling intervals, if that is longer.
    pub fresh_for: Duration,
    /// Time after an answer for which the timeline has an interval at all.
    pub time_to_live: Duration,
    /// Time without a heartbeat after which readers consider the estimator dead.
    pub alive_for: Duration,
    /// Changes of the local clock up to these limits do not count as a disturbance.
    pub watch: WatchLimits,
}

impl Config {
    /// Returns the default configuration for `sources` sources and a local clock with nanosecond
    /// resolution. Sources are polled every 125 ms … 64 s; the interval is fresh for 16 s, and void
    /// after 1000 s; an estimator counts as dead after 5 s of silence; a minority of the sources
    /// may be wrong.
    pub fn new(timeline: TimelineId, oscillator: OscillatorSpec, sources: usize) -> Self {
        Self {
            timeline,
            oscillator,
            resolution: Duration::from_ns(1),
            sources,
            tolerated_liars: sources.saturating_sub(1) / 2,
            demand_authentication: false,
            poll: PollLimits {
                shortest: Duration::from_ms(125),
                longest: Duration::from_s(64),
            },
            fresh_for: Duration::from_s(16),
            time_to_live: Duration::from_s(1000),
            alive_for: Duration::from_s(5),
            watch: WatchLimits::default(),
        }
    }
}
