//! Plants: simulated physics that the testbed's programs measure and control.
//!
//! A plant is a separate program, in any language, that speaks `timeloom-plant/1`
//! (docs/plant-protocol.md) over an inherited socket. It knows nothing of pauses. Requests state
//! the virtual instant to which it must advance, and the signals to read or write.
//!
//! - [`PlantProcess`] starts, queries and ends a plant. A plant that dies, hangs or violates the
//!   protocol is killed, and reported as a [`PlantError`].
//! - [`Exchange`] accesses a plant during a pause. It pauses the testbed, advances the plant to the
//!   frozen instant, reads and writes signals, and ends the pause. This is Figure 2 of the paper,
//!   in which `T2` is the frozen instant.
//! - [`modbus`] makes a plant's signals available to the testbed's programs, as registers of a
//!   Modbus/TCP device.
//!
//! The supervisor calls this crate. The crate does not stop clocks itself, but requests that from
//! `timeloom-bus`. It writes no result files, but passes samples to callbacks.

#![forbid(unsafe_code)]

mod child;
mod error;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod lines;
mod log;
mod message;
pub mod modbus;
mod process;
mod ticket_lock;

pub use error::{Fault, Op, PlantError};
pub use exchange::{Access, Exchange, ExchangeError, ExchangeStats, Sample};
pub use log::PlantLog;
pub use message::{Advance, PlantInfo, PlantInit, SampleRow, Signal};
pub use process::{PlantProcess, PlantSpec, Step, Timeouts};
