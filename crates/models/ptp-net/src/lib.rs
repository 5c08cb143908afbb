//! PTP clocks as nodes of a simulated network.
//!
//! `timeloom-ptp` has the clocks as state machines, `timeloom-net` the network; this crate connects
//! them. [`PtpNode::attach`] makes a switch of a `World` a transparent clock, or a host an ordinary
//! clock. Each has an oscillator of its own ([`NodeClock`]) and stamps its event messages as IEEE
//! 1588 specifies: when the first bit passes the port (7.3.4.1). Therefore the time that a frame
//! waits in a queue, or on its way into a store-and-forward switch, is residence, and no length of
//! frame makes a link look asymmetric.
//!
//! Messages travel as frames of the network, on layer 2 or in UDP over IPv4, and queue behind other
//! traffic. Real clocks at portals can therefore exchange messages with simulated ones. A switch
//! forwards other frames as before.
//!
//! Time can be signed ([`Signing`]), and a clock can be a [`Rogue`]: the violations that its
//! neighbours notice are in its and their tallies.
//!
//! True time is known here: [`Measured`] has a slave's measurement beside the true value.
#![forbid(unsafe_code)]

mod clock;
mod envelope;
mod keys;
mod node;
mod rogue;
mod tally;

pub use clock::{ClockOptions, NodeClock};
pub use envelope::Transport;
pub use keys::{Policy, Signing};
pub use node::{NodeOptions, Observer, PtpNode, Role};
pub use rogue::{Attack, Rogue};
pub use tally::{Event, Measured, Tally, Violation};
