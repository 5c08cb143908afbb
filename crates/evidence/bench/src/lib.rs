//! The benchmarks of `timeloom bench`.
//!
//! A figure is the median of *interleaved* rounds: the variants to compare run alternately (A B A B
//! …), and the ratio or difference of each round is computed from neighbouring measurements. If the
//! machine becomes slower meanwhile (heat, other tenants), all variants become slower alike.
//!
//! Measurements run in **worker** processes ([`worker_main`]). The same program runs natively and
//! in a session, and receives commands over a socket (`remote`). Workers measure time with the
//! processor's cycle counter, never with the clock that is tested.
//!
//! Each benchmark has its own file: `clock_read`, `syscall`, `pause` (and `skew`), `machines/*`
//! (pauses that machines agree on), `skip`, `exec`, `plant`, `net/*`, `ptp/*`, `timeline/*`, `vm/*`. The
//! names of metrics are part of the public contract.
//!
//! A figure that misses its bar is reported and is not an error. Tools that must fail in that case
//! can evaluate the JSON output.

mod clock_read;
mod cores;
mod error;
mod exec;
mod experiment;
mod figure;
pub mod lab;
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
mod skip;
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
pub use experiment::{Experiment, WrittenFiles};
pub use figure::{Better, Figure, TABLE_HEADER};
pub use machines::{Machines, pause_of_machines};
pub use net::{NET_FIGURES, NET_GROUPS, TCP_LOSSES, net_figures, validate_tcp};
pub use ptp::write_ptp_document;
pub use stats::{median, percentile};
pub use vm::vm_page;
pub use worker::worker_main;

/// Name of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Cost of reading a session's clock.
    ClockRead,
    /// Cost of the filter on system calls, and of a call that it traps.
    Syscall,
    /// Latency of stopping and resuming a session's clock and processes.
    Pause,
    /// Rate of events in time that skips.
    Skip,
    /// Cost of starting programs in a session, and additional memory of processes there.
    Exec,
    /// Cost of an exchange of values with a plant, without the plant's solver.
    Plant,
    /// Speed of simulated networks, and of the communication between engines.
    Net,
    /// Cost of signatures in PTP.
    Ptp,
    /// Cost of reading a timeline with its error interval.
    Timeline,
    /// Quality and cost of time in virtual machines.
    Vm,
}

impl Name {
    /// All benchmarks, in the recommended order.
    pub const ALL: [Self; 10] = [
        Self::ClockRead,
        Self::Syscall,
        Self::Pause,
        Self::Skip,
        Self::Exec,
        Self::Plant,
        Self::Net,
        Self::Ptp,
        Self::Timeline,
        Self::Vm,
    ];

    /// Returns the name as on the command line and in the field `bench` of a figure.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClockRead => "clock-read",
            Self::Syscall => "syscall",
            Self::Pause => "pause",
            Self::Skip => "skip",
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
    /// True for few rounds: all benchmarks together then take five minutes on two processors.
    pub quick: bool,
    /// Command line of a worker. One more argument, which is passed to [`worker_main`], is
    /// appended.
    pub worker: Vec<OsString>,
    /// Group of figures ([`NET_GROUPS`]) to which [`Name::Net`] is restricted; `None` for all,
    /// which takes long.
    pub only: Option<String>,
    /// Numbers of simultaneous guests for [`Name::Vm`], in ascending order; empty for the default.
    pub guests: Vec<usize>,
    /// Callback for remarks to the user: skipped measurements, with the reasons.
    pub remark: fn(&str),
}

impl Options {
    /// Returns `quick` or `full`, depending on the options.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Measures only the cost of reading each clock in this process, as figures of [`Name::Timeline`].
/// Takes a few seconds at most.
///
/// # Errors
/// Fails under the same conditions as [`run`].
pub fn read_costs(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    timeline::reads(options, figure)
}

/// Runs a benchmark, and passes each figure to `figure` as soon as it is known.
///
/// # Errors
/// Fails if a measurement is not possible, for example because a session cannot be created or a
/// worker has died. Figures that were passed on before are valid.
pub fn run(
    name: Name,
    options: &Options,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    match name {
        Name::ClockRead => clock_read::run(options, figure),
        Name::Syscall => syscall::run(options, figure),
        Name::Pause => pause::run(options, figure).and_then(|()| skew::run(options, figure)),
        Name::Skip => skip::run(options, figure),
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
