//! Time as it passes for a machine, whoever tells it.

use timeloom_time::Scale;

/// The scale of the clock that paces a machine: `now` and `next_wake` are on it, and
/// with them every interval between messages and every time-out.
///
/// It is a free-running clock that nobody steers (LocalClock, IEEE 802.1AS), counts
/// nanoseconds from a zero of its own, and is never compared with a [`crate::Stamp`].
/// Who drives a machine says by a [`timeloom_time::ClockMap`] what it runs by: a
/// program by the machine's CLOCK_MONOTONIC, a simulated node by the session's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {}

impl Scale for Local {
    const NAME: &'static str = "local";
}
