//! PTP clocks as nodes of a simulated network.
//!
//! `timeloom-ptp` contains the clocks as state machines, and `timeloom-net` the network; this crate
//! connects them. [`PtpNode::attach`] makes a switch of a `World` a transparent clock, or a host an
//! ordinary clock. Each clock has its own oscillator ([`NodeClock`]) and timestamps its event
//! messages as IEEE 1588 specifies: when the first bit passes the port (7.3.4.1). The time that a
//! frame waits in a queue, or travels into a store-and-forward switch, therefore counts as
//! residence time, and the length of a frame does not make a link look asymmetric.
//!
//! Messages travel as frames of the network, on layer 2 or in UDP over IPv4, and queue with other
//! traffic. Real clocks at portals can therefore exchange messages with simulated ones. A switch
//! forwards all other frames as before.
//!
//! Messages can be signed ([`SigningConfig`]), and a clock can be an attacker ([`Rogue`]). The
//! violations that it and its neighbours notice are counted in their tallies.
//!
//! True time is known in a simulation: [`SyncMeasurement`] contains a slave's measurement and the
//! true value.
#![forbid(unsafe_code)]
// Conversions state their result (see `timeloom_time::convert`). Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod clock;
mod envelope;
mod keys;
mod node;
mod rogue;
mod tally;

pub use clock::{NodeClock, NodeClockOptions};
pub use keys::{ClockSecret, EPOCH, SigningConfig, VerificationPolicy};
pub use node::{NodeOptions, ObserverCallback, PtpNode};
pub use rogue::{Rogue, RogueAttack};
pub use tally::{ClockCounters, ClockEvent, ClockViolation, SyncMeasurement};
pub use timeloom_ptp::{Role, Transport};
