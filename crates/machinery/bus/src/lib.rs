//! The pause bus: a line with one level that pauses the whole testbed.
//!
//! "Distributed virtual time" (Hannon, Yan, Liu, Jin, PADS '19) gives two criteria for the requests
//! `S(p)` of all processes `p`. The testbed pauses while their sum is at least one (1), and
//! resumes when it is zero (2). This describes a wired-OR line: the testbed is *paused while there
//! is a hold, and running after the last release*. This crate implements the line, and records each
//! hold with its requester, reason and duration.
//!
//! - [`Bus::hold`] pulls the line high and returns a [`Hold`]. Dropping the hold releases the line.
//! - [`Testbed`] is what the line pauses and resumes: the supervisor, or a simulated testbed.
//! - [`Wire`] carries the level to other machines, so that they pause too. [`LocalWire`] ends at
//!   this machine's testbed. [`Udp`] joins machines, whose testbeds ([`AgreedTestbed`]) all pause
//!   at the same instant. [`NetworkedWire`] and [`StandaloneWire`] are ends of a line of GPIO pins,
//!   with and without a network beside it.
//! - [`HoldRecord`]s are passed to a [`Sink`]. They become the rows of `clock.parquet`.
//!
//! The line is not a lock: holds overlap freely, and do not restrict access to a plant.
//! `timeloom-plant` serialises that access. The line neither reads the virtual clock nor stops a
//! process; the testbed does.
#![forbid(unsafe_code)]

mod agreed;
mod bus;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod level;
mod record;
mod testbed;
mod watchdog;
mod wire;
mod wired;

pub use agreed::{
    AgreedTestbed, BoundSocket, BusKey, BusPeer, CommonTimeline, LocalResumption, MachineTimeline,
    SystemTimeline, Udp, UdpError,
};
pub use bus::{Bus, BusBuilder, Hold};
pub use error::BusError;
pub use record::{HoldRecord, HoldRecorder, RecordKind, Sink};
pub use testbed::{FreeRunning, Testbed, TestbedError};
pub use watchdog::{Holder, LongPause};
pub use wire::{
    AgreedWire, AwaitedMachine, Cause, HaltReason, LocalWire, MachineWire, StoppingWire, Wire,
};
pub use wired::{
    Edge, FaultCallback, GpioPins, Levels, LineEvent, LineFault, LineSettings, LineState,
    NetworkedWire, NoPins, PinNames, Pins, StandaloneWire, prove,
};
