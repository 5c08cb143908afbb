//! PTP on real interfaces.
//!
//! `timeloom-ptp` implements PTP clocks as state machines. This crate adds sockets, timestamps,
//! keys and evidence, and runs the clocks as programs: grandmaster, slave, transparent clock and
//! monitor. It also builds a laboratory of network namespaces in which these programs, or ptp4l,
//! form a chain.
//!
//! The state machines make all decisions about time, so this crate makes none. A program changes
//! the machine's clock only if its options request steering. The command line (`timeloom ptp`)
//! calls this crate.
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
pub use evidence::{Alarm, Evidence, EvidenceLine, LineWriter, Names, SyncLine, Violation};
pub use feed::Feed;
pub use interface::Interface;
pub use observer::Observer;
pub use preparer::Preparer;
pub use profile::profile_named;
pub use program::{Program, ProgramOptions};
pub use random::KernelRandom;
pub use second::SecondNetwork;
pub use socket::Stamping;
pub use steer::{Steering, SystemClock};
pub use timeloom_ptp::DelayMechanism;
pub use timeloom_ptp::security::Policy;
pub use timeloom_ptp::{HopRecord, HopVerdict, PROFILES, Random, Role, SyncReport, Transport};
pub use timeloom_wire::tlv::{EntryForm, Suite};
pub use timeloom_wire::{SyncVerdict, TimeInterval};
pub use wake::Wake;
