//! Assembly: from a checked plan to a finished run directory.
//!
//! The crate builds everything that a plan asks for from the machinery crates, runs it on one
//! virtual clock, and stores the results. `experiment.rs` defines the order: while the clock is
//! stopped at zero, the network, plants, field devices and captures are created; then the clock is
//! started; programs start at their virtual instants; at the end, or at the first failure, the
//! clock is stopped for good and the results are written.
//!
//! This crate contains no mechanisms: the bus decides pauses, the session stops processes, and the
//! fabric or the portals carry packets.
#![forbid(unsafe_code)]

pub mod agent;
mod agreed;
mod attacks;
mod awaited;
mod cards;
mod channel;
mod civil;
pub mod compare;
mod containers;
mod coordinator;
mod cores;
mod devices;
mod error;
pub mod exit;
mod experiment;
mod flow_stats;
mod hosts;
mod inputs;
mod inquiry;
mod judgement;
mod kernel_timers;
mod link_error;
mod links;
mod machines;
mod names;
mod network;
mod network_signals;
mod node;
mod numbers;
mod opening;
mod options;
mod outputs;
mod pause_bus;
mod periods;
mod placed;
mod plants;
mod programs;
mod ptp_clocks;
mod python;
mod quiescence;
mod readiness;
mod record;
pub mod report;
mod rights;
mod seeds;
mod servers;
mod simulated;
mod spoofing;
mod summary;
pub mod sweep;
mod testbed;
mod timelines;
mod verdict;

pub use coordinator::run;
pub use error::RunError;
pub use options::RunOptions;
#[doc(hidden)]
pub use placed::fuzzing;
pub use plants::signals_of;
pub use python::{ProvidedPackage, PythonCommand};
pub use simulated::{EngineError, serve_engine};
pub use summary::{Progress, Summary};
pub use testbed::PausedTestbed;
pub use verdict::End;
