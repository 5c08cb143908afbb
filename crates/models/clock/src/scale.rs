//! Time scales that this crate defines.

use timeloom_time::Scale;

/// Host time: the part of the session's time that has passed for a host since the session began.
///
/// Host time equals session time, unless the host was suspended or slowed down. Only the host's
/// [map](crate::host_time_map) converts between the two.
///
/// ```compile_fail
/// use timeloom_clock::HostTime;
/// use timeloom_time::{Instant, Virtual};
/// let missed = Instant::<Virtual>::ZERO - Instant::<HostTime>::ZERO;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTime {}

impl Scale for HostTime {
    const NAME: &'static str = "lived";
}

/// Oscillator time: the count of a host's oscillator, in nanoseconds since the session began.
/// Usually the host's [core](timeloom_time::Core) clock equals this count. A core clock that counts
/// cycles of changing frequency may lag behind it ([`crate::counter`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oscillation {}

impl Scale for Oscillation {
    const NAME: &'static str = "oscillation";
}

/// CLOCK_MONOTONIC of a kernel. It is derived from the [core](timeloom_time::Core) clock, and is
/// slewed but never stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotonic {}

impl Scale for Monotonic {
    const NAME: &'static str = "monotonic";
}

/// Time that the clock of a network card shows. Programs may set it to any value; at the start it
/// is civil time, plus the card's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardTime {}

impl Scale for CardTime {
    const NAME: &'static str = "card";
}

/// Timeline: nanoseconds since the timeline's zero. The zero of a timeline that follows civil time
/// is 1970-01-01T00:00:00 TAI, and leap seconds are not counted; [`crate::timeline::UtcView`]
/// converts such a timeline to UTC. The timeline of a stamp is identified by an id in the stamp,
/// not by its type, because timelines are created at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineTime {}

impl Scale for TimelineTime {
    const NAME: &'static str = "timeline";
}
