//! The scales that this crate adds to the vocabulary.

use timeloom_time::Scale;

/// A host's own time: the virtual time that it has lived through since the session
/// began. It is the session's, unless the host was suspended or slowed down
/// meanwhile ([`crate::course`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lived {}

impl Scale for Lived {
    const NAME: &'static str = "lived";
}

/// A machine's free-running local clock: nanoseconds since some local zero,
/// counted by one oscillator and steered by nobody ("core clock" in QuartzV,
/// section IV-B-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {}

impl Scale for Core {
    const NAME: &'static str = "core";
}

/// CLOCK_MONOTONIC of a kernel: its [`Core`] clock, slewed but never stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotonic {}

impl Scale for Monotonic {
    const NAME: &'static str = "monotonic";
}

/// A timeline: nanoseconds since the timeline's zero. For a timeline that
/// follows civil time this is TAI since 1970-01-01T00:00:00 TAI, without leap
/// seconds; UTC is a view of it ([`crate::timeline::UtcView`]). Which timeline
/// is said by the stamp's id, because timelines are made at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeline {}

impl Scale for Timeline {
    const NAME: &'static str = "timeline";
}
