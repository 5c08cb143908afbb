//! Time scales that this crate defines.

use timeloom_time::Scale;

/// Host time: the part of the session's time that has passed for a host since the session began. It
/// is all of it, unless the host was suspended or slowed down meanwhile: only its
/// [course](crate::course) converts one into the other.
///
/// ```compile_fail
/// use timeloom_clock::Lived;
/// use timeloom_time::{Instant, Virtual};
/// let missed = Instant::<Virtual>::ZERO - Instant::<Lived>::ZERO;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lived {}

impl Scale for Lived {
    const NAME: &'static str = "lived";
}

/// Oscillator time: a host's oscillator count, in nanoseconds since the session began. Usually the
/// host's [core](timeloom_time::Core) clock counts exactly this; a clock that counts cycles of
/// changing frequency may fall behind it ([`crate::counter`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oscillation {}

impl Scale for Oscillation {
    const NAME: &'static str = "oscillation";
}

/// CLOCK_MONOTONIC of a kernel: its [core](timeloom_time::Core) clock, slewed but never stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotonic {}

impl Scale for Monotonic {
    const NAME: &'static str = "monotonic";
}

/// Timeline: nanoseconds since the timeline's zero. For a timeline that follows civil time this is
/// TAI since 1970-01-01T00:00:00 TAI, without leap seconds; UTC is a view of it
/// ([`crate::timeline::UtcView`]). The stamp's id identifies the timeline, because timelines are
/// created at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeline {}

impl Scale for Timeline {
    const NAME: &'static str = "timeline";
}
