//! `net`: the network engine, its portals, and what they are compared with.
//!
//! One file per group of figures. `dumbbell` and `scale` measure the engine
//! alone; `realtime` measures real programs through it; `ns3` compiles and runs
//! the same models in ns-3. `wire` measures what the peering portal carries
//! (`raw` is its baseline), `parallel` what a second engine gains (`pair` runs
//! one network in one or two), `errors` what not waiting does to results;
//! `figures` writes the paper's plots.

mod dumbbell;
mod errors;
mod figures;
mod model;
mod ns3;
mod pair;
mod parallel;
mod ping;
mod raw;
mod realtime;
mod scale;
mod wire;

use crate::error::BenchError;
use crate::figure::{Better, Figure};
use crate::{Name, Options};

pub use figures::net_figures;

const BENCH: Name = Name::Net;

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    // First, while the process has not grown: it measures memory.
    scale::run(options, figure)?;
    dumbbell::run(options, figure)?;
    wire::run(options, figure)?;
    parallel::run(options, figure)?;
    errors::run(options, figure)?;
    realtime::run(options, figure)
}

/// Processes that wanted a processor in the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

fn higher(figure: Figure) -> Figure {
    Figure {
        better: Better::Higher,
        ..figure
    }
}
