//! The benchmarks behind `timeloom bench`.
//!
//! A figure is the median of *interleaved* rounds: the compared variants run alternately (A B A B
//! …), and each round's ratio or difference is computed from neighbouring measurements, so that a
//! machine that slows down meanwhile (heat, other tenants) slows both sides alike.
//!
//! Measurements run in **worker** processes ([`worker_main`]), the same program natively and inside
//! a session, commanded over a socket (`remote`). They time themselves with the processor's cycle
//! counter, never with the clock under test.
//!
//! Each benchmark has a file: `clock_read`, `syscall`, `pause` (and `skew`), `machines/*` (pauses
//! agreed between machines), `exec`, `plant`, `net/*`, `ptp/*`, `timeline/*`, `vm/*`. The metric
//! names are part of the public contract.
//!
//! Assertions are out of scope: a missed bar is reported, not an error; tools that gate on it read
//! the JSON.

mod clock_read;
mod cores;
mod error;
mod exec;
mod experiment;
mod figure;
mod machines;
mod net;
mod pause;
mod plant;
mod ptp;
mod remote;
mod rounds;
mod scratch;
mod shared;
mod skew;
mod sleep;
mod stats;
mod syscall;
mod ticks;
mod timeline;
mod vm;
mod whole;
mod worker;

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

pub use error::BenchError;
pub use experiment::{Experiment, Written};
pub use figure::{Better, Figure, TABLE_HEADER};
pub use machines::{Machines, pause_of_machines};
pub use net::{NET_FIGURES, NET_GROUPS, TCP_LOSSES, net_figures, validate_tcp};
pub use ptp::write_ptp_document;
pub use stats::{median, percentile};
pub use vm::vm_page;
pub use worker::worker_main;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Cost of reading a virtual clock.
    ClockRead,
    /// Overhead of the filter on system calls, and cost of a trapped call.
    Syscall,
    /// Latency of stopping and resuming the clock and the processes.
    Pause,
    /// Cost of starting programs, and memory of a session.
    Exec,
    /// Cost of an exchange with a plant, without the solver.
    Plant,
    /// Speed of simulated networks, and of communication between engines.
    Net,
    /// Cost of signatures in time distribution.
    Ptp,
    /// Cost of reading a timeline with its interval.
    Timeline,
    /// Quality of time in virtual machines, and its cost there.
    Vm,
}

impl Name {
    /// All benchmarks, in the recommended order.
    pub const ALL: [Self; 9] = [
        Self::ClockRead,
        Self::Syscall,
        Self::Pause,
        Self::Exec,
        Self::Plant,
        Self::Net,
        Self::Ptp,
        Self::Timeline,
        Self::Vm,
    ];

    /// Returns the name used on the command line and in the field `bench`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClockRead => "clock-read",
            Self::Syscall => "syscall",
            Self::Pause => "pause",
            Self::Exec => "exec",
            Self::Plant => "plant",
            Self::Net => "net",
            Self::Ptp => "ptp",
            Self::Timeline => "timeline",
            Self::Vm => "vm",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str);
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| format!("there is no such benchmark; there are {}", known.join(", ")))
    }
}

/// Options of a benchmark.
pub struct Options {
    /// Few rounds: all benchmarks together take five minutes on two processors.
    pub quick: bool,
    /// Command that ends in [`worker_main`] with one more argument.
    pub worker: Vec<OsString>,
    /// Restricts [`Name::Net`], which takes long, to this group of figures ([`NET_GROUPS`]).
    pub only: Option<String>,
    /// Numbers of simultaneous guests for [`Name::Vm`], ascending; empty for the default.
    pub guests: Vec<usize>,
    /// Called with remarks for the user: skipped measurements and the reasons.
    pub remark: fn(&str),
}

impl Options {
    /// Returns `quick` or `full`, by the options.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Measures the cost of reading each clock in this process, with the figures of [`Name::Timeline`];
/// takes a few seconds at most.
///
/// # Errors
/// Fails under the same conditions as [`run`].
pub fn read_costs(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    timeline::reads(options, figure)
}

/// Runs a benchmark and passes on each figure as soon as it is known.
///
/// # Errors
/// Fails if a measurement was not possible: no session on this machine, or a worker that died.
/// Figures passed on before are valid.
pub fn run(
    name: Name,
    options: &Options,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    match name {
        Name::ClockRead => clock_read::run(options, figure),
        Name::Syscall => syscall::run(options, figure),
        Name::Pause => pause::run(options, figure).and_then(|()| skew::run(options, figure)),
        Name::Exec => exec::run(options, figure)
            .and_then(|()| sleep::run(options, figure))
            .and_then(|()| whole::run(options, figure)),
        Name::Plant => plant::run(options, figure),
        Name::Net => net::run(options, figure),
        Name::Ptp => ptp::run(options, figure),
        Name::Timeline => timeline::run(options, figure),
        Name::Vm => vm::run(options, figure),
    }
}
