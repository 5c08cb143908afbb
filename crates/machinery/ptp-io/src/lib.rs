//! PTP on real interfaces.
//!
//! `timeloom-ptp` has the clocks as state machines; this crate adds sockets, stamps, keys and
//! evidence, and runs them as programs: grandmaster, slave, transparent clock, monitor. It also
//! builds a laboratory of network namespaces in which these programs, or ptp4l, form a chain.
//!
//! Not in this crate: decisions about time (made by the machines). It touches the machine's clock
//! only if asked to steer it. The command line (`timeloom ptp`) calls it.
//!
//! Read in this order: [`Program`], `driver.rs` (the event loop), `socket` (frames and stamps),
//! `evidence`, `keys`, `lab`.
#![forbid(unsafe_code)]

mod auth;
mod clocks;
mod departures;
mod driver;
mod error;
mod evidence;
mod feed;
#[doc(hidden)]
pub mod fuzzing;
mod interface;
pub mod keys;
pub mod lab;
mod observer;
mod preparer;
mod profile;
mod program;
mod random;
mod second;
mod socket;
mod steer;
mod verifier;
mod wake;

pub use auth::{Auth, Channel};
pub use driver::Counters;
pub use error::PtpError;
pub use evidence::{Alarm, Evidence, Line, LineWriter, Names, SyncLine, Violation};
pub use feed::Feed;
pub use interface::Interface;
pub use observer::Observer;
pub use preparer::Preparer;
pub use profile::profile_named;
pub use program::{Options, Program, Role};
pub use random::KernelRandom;
pub use second::SecondNetwork;
pub use socket::{Stamping, Transport};
pub use steer::{Steering, SystemClock};
pub use timeloom_ptp::DelayMechanism;
pub use timeloom_ptp::security::Policy;
pub use timeloom_ptp::{HopRecord, HopVerdict, PROFILES, Random, SyncReport};
pub use timeloom_wire::tlv::{EntryForm, Suite};
pub use timeloom_wire::{SyncVerdict, TimeInterval};
pub use wake::Wake;
