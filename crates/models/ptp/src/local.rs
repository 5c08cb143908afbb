//! Time base of a state machine's timers, supplied by its driver.

use timeloom_time::Scale;

/// Scale of the clock for timers. `now` and `next_wake` use it, and therefore all intervals between
/// messages and all timeouts.
///
/// The clock is free-running and never steered (LocalClock in IEEE 802.1AS), and counts nanoseconds
/// from its own zero. Its instants are never compared with a [`crate::Stamp`]. The driver of a
/// state machine defines it by a [`timeloom_time::ClockMap`]: a program from the machine's
/// CLOCK_MONOTONIC, a simulated node from the session's virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {}

impl Scale for Local {
    const NAME: &'static str = "local";
}
