//! The benchmarks behind `timeloom bench`.
//!
//! A figure here is the median of *interleaved* rounds: what is compared runs
//! alternately (A B A B …) in one go, and each round's ratio or difference is
//! computed from neighbours, so that a machine that grows slower meanwhile
//! (heat, other tenants) slows both sides alike.
//!
//! What is measured runs in **worker** processes ([`worker_main`]), the same
//! program natively and inside a session, commanded over a socket (`remote`).
//! They time themselves with the processor's cycle counter, never with the
//! clock under test.
//!
//! One file per benchmark: `clock_read`, `syscall`, `pause` (and `skew`),
//! `machines/*` (pauses that several agree on), `exec`, `plant`, `net/*`, `ptp/*`,
//! `timeline/*`, `vm/*`. The metric names are part of the outward contract.
//!
//! Not here: assertions. A bar that is missed is reported, not an error; who
//! gates on it reads the JSON.

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
    /// What reading a virtual clock costs.
    ClockRead,
    /// What the filter adds to system calls, and what a trapped one costs.
    Syscall,
    /// How fast clock and processes stop and go on.
    Pause,
    /// What starting programs costs, and the memory that a session takes.
    Exec,
    /// What an exchange with a plant costs beyond the solver.
    Plant,
    /// How fast simulated networks run, and how engines meet.
    Net,
    /// What signatures cost time distribution, and what they do not.
    Ptp,
    /// What reading a timeline with its interval costs.
    Timeline,
    /// The quality of time in virtual machines, and what it costs there.
    Vm,
}

impl Name {
    /// All, in the order in which they are best run.
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

    /// As on the command line and in the field `bench`.
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

/// How to run a benchmark.
pub struct Options {
    /// Few rounds: all benchmarks together take five minutes on two processors.
    pub quick: bool,
    /// The command that ends in [`worker_main`] with one more argument.
    pub worker: Vec<OsString>,
    /// Of [`Name::Net`], which takes long, only this group of figures
    /// ([`NET_GROUPS`]).
    pub only: Option<String>,
    /// Of [`Name::Vm`], numbers of guests at once, ascending; none: the usual ones.
    pub guests: Vec<usize>,
    /// Called with remarks for the user: what was left out and why.
    pub remark: fn(&str),
}

impl Options {
    /// `quick` or `full`, by what was asked for.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// What reading each clock costs in this process, of [`Name::Timeline`]'s figures:
/// a few seconds at most.
///
/// # Errors
/// As [`run`].
pub fn read_costs(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    timeline::reads(options, figure)
}

/// Runs a benchmark and hands out each figure as soon as it is known.
///
/// # Errors
/// When something could not be measured at all: no session on this machine, a
/// worker that died. Figures handed out before that are good.
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
