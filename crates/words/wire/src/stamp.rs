//! When an event message passed a port.

use timeloom_time::{Instant, Scale};

/// The scale of the clock that stamps event messages: the card's, or the
/// kernel's. In a slave it is the clock that is disciplined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {}

impl Scale for Hardware {
    const NAME: &'static str = "hardware";
}

/// When an event message passed the reference plane of a port, in nanoseconds
/// since the epoch of the clock that stamps.
pub type Stamp = Instant<Hardware>;
