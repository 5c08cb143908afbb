//! Configuration of a timeline.

use timeloom_time::Duration;

use super::{PollLimits, WatchLimits};
use crate::oscillator::OscillatorSpec;
use crate::quality::TimelineId;

/// Number of a source in its timeline, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub usize);

/// Assumptions on which a timeline's bounds rest, and its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Identifier of the timeline.
    pub timeline: TimelineId,
    /// Specification of the local oscillator.
    pub oscillator: OscillatorSpec,
    /// Step of the core clock.
    pub resolution: Duration,
    /// Number of sources.
    pub sources: usize,
    /// Number of sources that may be off by more than they state. With 0 every source is believed;
    /// `n` liars are outvoted if there are `2 n + 1` sources.
    pub tolerated_liars: usize,
    /// Answers must be authenticated.
    pub demand_authentication: bool,
    /// Limits of the polling interval.
    pub poll: PollLimits,
    /// Minimum time for which an answer keeps the timeline `Ok`; three times the time between
    /// questions if that is longer.
    pub fresh_for: Duration,
    /// Time for which an answer keeps an interval at all.
    pub time_to_live: Duration,
    /// Time without a sign of life after which readers consider the keeper dead.
    pub alive_for: Duration,
    /// Tolerances within which a change of the local clock is no disturbance.
    pub watch: WatchLimits,
}

impl Config {
    /// Returns a timeline over `sources` sources on a local clock of nanosecond resolution: asked
    /// every 125 ms … 64 s, fresh for 16 s, void after 1000 s, dead after 5 s of silence,
    /// tolerating a minority of liars.
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
