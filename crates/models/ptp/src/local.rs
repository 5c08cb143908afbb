//! Time base of a machine, supplied by its driver.

use timeloom_time::Scale;

/// Scale of the clock that paces a machine, used by `now` and `next_wake` and therefore by every
/// interval between messages and every timeout.
///
/// It is a free-running clock that is never steered (LocalClock, IEEE 802.1AS), counts nanoseconds
/// from its own zero, and is never compared with a [`crate::Stamp`]. The driver of a machine
/// defines it by a [`timeloom_time::ClockMap`]: for a program from the machine's CLOCK_MONOTONIC,
/// for a simulated node from the session's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {}

impl Scale for Local {
    const NAME: &'static str = "local";
}
