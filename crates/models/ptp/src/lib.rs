//! IEEE 1588 clocks as state machines, in which every clock on the path (hop) signs its correction.
//!
//! The crate uses no sockets, no clock of the machine and no randomness of its own. All state
//! machines have the same interface: `handle_*` takes an event and the time `now`, the driver polls
//! [`DriverAction`]s, and `next_wake` returns the time of the next call. The type system separates
//! two clocks: instants of [`Local`] are for timers, and [`Stamp`]s are readings of the clock that
//! PTP measures and disciplines.
//!
//! - [`OrdinaryClock`]: a clock with one port; the best master clock algorithm decides whether it
//!   is grandmaster or slave.
//! - [`TransparentClock`]: a clock with any number of ports; forwards Sync messages and adds their
//!   residence time, for each egress port.
//! - [`ClockMachine`]: either of them.
//! - [`security`]: the signatures of hops.
//!
//! Programs drive these state machines with real sockets; `tests/world` drives them with simulated
//! ones.
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

mod action;
mod best_master;
mod delay_request;
mod foreign;
mod local;
mod machine;
mod ordinary;
mod outbox;
mod peer_delay;
mod profile;
mod random;
mod report;
mod role;
pub mod security;
mod servo;
mod stamp;
mod sync_report;
mod syntonise;
pub mod tamper;
mod transparent;
mod transport;

pub use action::{DriverAction, PtpPacket, Token};
pub use best_master::{Dataset, Preference};
pub use local::Local;
pub use machine::ClockMachine;
pub use ordinary::{OrdinaryClock, OrdinaryConfig, PortState};
pub use peer_delay::{Neighbour, PeerDelay};
pub use profile::{DelayMechanism, PROFILES, PowerTlv, Profile};
pub use random::RandomSource;
pub use report::{ClockReport, DropReason, Drops};
pub use role::Role;
pub use servo::{PiServo, ServoOutput};
pub use sync_report::{HopRecord, HopVerdict, SyncReport};
pub use timeloom_random::SplitMix64;
pub use timeloom_wire::{Hardware, Stamp};
pub use transparent::{TransparentClock, TransparentConfig};
pub use transport::Transport;
