//! Plants: the simulated physics that the testbed's programs measure and move.
//!
//! A plant is a program of its own, in any language, that speaks
//! `timeloom-plant/1` (docs/plant-protocol.md) over an inherited socket. It
//! knows nothing of pauses: it is told how far to advance, in virtual time, and
//! asked for signals.
//!
//! - [`PlantProcess`] starts, asks and ends one. A plant that dies, hangs or
//!   answers nonsense becomes a [`PlantError`] that says so, and is gone.
//! - [`Exchange`] is one plant behind the pause wire: raise the pause, advance
//!   the plant to the frozen instant, read and write, let go. The paper's
//!   Figure 2, with `T2` the frozen instant.
//! - [`modbus`] shows a plant's signals to the testbed's programs as registers
//!   of a Modbus/TCP device.
//!
//! The supervisor calls this crate. It does not stop clocks (`timeloom-bus`
//! asks for that) nor write result files (callbacks hand the samples out).

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
mod turns;

pub use error::{Fault, Op, PlantError};
pub use exchange::{Access, Exchange, ExchangeError, ExchangeStats, Sample};
pub use log::PlantLog;
pub use message::{Advance, PlantInfo, PlantInit, SampleRow, Signal};
pub use process::{PlantProcess, PlantSpec, Step, Timeouts};
