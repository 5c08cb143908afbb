//! PTP clocks as nodes of a simulated network.
//!
//! `timeloom-ptp` has the clocks as state machines, `timeloom-net` the network;
//! here they meet. [`PtpNode::attach`] makes a switch of a `World` a transparent
//! clock, or a host an ordinary clock. Each has an oscillator of its own
//! ([`NodeClock`]) and stamps its event messages where IEEE 1588 says: when the
//! first bit passes the port (7.3.4.1), so that what a frame waits in a queue,
//! or on its way into a store-and-forward switch, is residence, and no length of
//! frame makes a link look asymmetric.
//!
//! Messages travel as frames of the network, on layer 2 or in UDP over IPv4,
//! behind all other traffic. So real clocks at portals meet simulated ones. What
//! is not PTP a switch forwards as before.
//!
//! Time can be signed ([`Signing`]), and a clock can be a [`Rogue`]: what its
//! neighbours notice is in its and their tallies.
//!
//! Here true time is known: [`Measured`] has what a slave measured beside what
//! it should have.
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
