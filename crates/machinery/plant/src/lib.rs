//! Plants: the simulated physics that the testbed's programs measure and control.
//!
//! A plant is a separate program, in any language, that speaks `timeloom-plant/1`
//! (docs/plant-protocol.md) over an inherited socket. It does not know of pauses: requests tell it
//! how far to advance, in virtual time, and which signals to read or write.
//!
//! - [`PlantProcess`] starts, queries and ends a plant. A plant that dies, hangs or violates the
//!   protocol is killed and reported as a [`PlantError`].
//! - [`Exchange`] is a plant that is accessed under a pause: pause the testbed, advance the plant
//!   to the frozen instant, read and write, end the pause. This is Figure 2 of the paper, with `T2`
//!   the frozen instant.
//! - [`modbus`] exposes a plant's signals to the testbed's programs as registers of a Modbus/TCP
//!   device.
//!
//! The supervisor calls this crate. The crate neither stops clocks (`timeloom-bus` requests that)
//! nor writes result files (callbacks receive the samples).

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
