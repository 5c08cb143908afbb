//! What is stated about a timeline before it runs.

use timeloom_time::Duration;

use super::{PollLimits, WatchLimits};
use crate::oscillator::OscillatorSpec;
use crate::quality::TimelineId;

/// Number of a source in its timeline, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub usize);

/// The statements on which a timeline's bounds rest, and its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which timeline.
    pub timeline: TimelineId,
    /// The local oscillator.
    pub oscillator: OscillatorSpec,
    /// The core clock's step.
    pub resolution: Duration,
    /// How many sources there are.
    pub sources: usize,
    /// How many of them may err by more than they state. With 0 every source is
    /// believed; `n` liars are seen through when there are `2 n + 1` sources.
    pub tolerated_liars: usize,
    /// Whether answers must prove where they come from.
    pub demand_authentication: bool,
    /// How often sources may be asked.
    pub poll: PollLimits,
    /// How long an answer keeps the timeline `Ok`, at least; three times the
    /// time between questions when that is longer.
    pub fresh_for: Duration,
    /// How long an answer keeps the timeline at all.
    pub time_to_live: Duration,
    /// How long the keeper may be silent before readers call it dead.
    pub alive_for: Duration,
    /// What is still no disturbance of the local clock.
    pub watch: WatchLimits,
}

impl Config {
    /// A timeline over `sources` sources on a local clock of nanosecond
    /// resolution: asked every 125 ms … 64 s, fresh for 16 s, void after
    /// 1000 s, dead after 5 s of silence, believing a majority.
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
