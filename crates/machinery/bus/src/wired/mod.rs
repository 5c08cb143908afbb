//! A line between machines that is a wire: pins of a GPIO chip, joined by OR.
//!
//! As in the paper's Figures 5, 6 and 13: one output, one input for rising and one for falling
//! edges on each machine. A wire carries a level and no instants, so there are two ends: [`Wired`]
//! has a network beside the line, over which the instants are agreed; [`Alone`] has none, and
//! pauses at the edge that it sees.

mod alone;
mod beside;
mod line;
mod pins;
mod pump;

pub use alone::Alone;
pub use beside::{Warn, Wired};
pub use line::{Edge, Fault, Levels, Line, LineEvent, LineSettings};
pub use pins::{GpioPins, NoPins, PinNames, Pins, prove};
