//! Timestamps of event messages at a port.

use timeloom_time::{Instant, Scale};

/// Scale of the clock that timestamps event messages: the network card's clock, or the kernel's. In
/// a slave, the servo disciplines this clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {}

impl Scale for Hardware {
    const NAME: &'static str = "hardware";
}

/// Instant at which an event message passed the reference plane of a port, in nanoseconds since the
/// epoch of the timestamping clock.
pub type Stamp = Instant<Hardware>;
