//! Line between machines that is a wire: pins of GPIO chips that are joined by OR.
//!
//! As in the paper's Figures 5, 6 and 13, each machine has one output, one input for rising edges
//! and one for falling edges. A wire carries a level but no instants, so there are two kinds of
//! ends. [`NetworkedWire`] has a network beside the wire, over which the machines agree on the
//! instants. [`StandaloneWire`] has no network, and pauses at the edge that it detects.

mod alone;
mod beside;
mod line;
mod monitor;
mod pins;

pub use alone::StandaloneWire;
pub use beside::{FaultCallback, NetworkedWire};
pub use line::{Edge, Fault, Levels, LineEvent, LineSettings, LineState};
pub use pins::{GpioPins, NoPins, PinNames, Pins, prove};
