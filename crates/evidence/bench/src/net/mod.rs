//! `net`: the network engine, its portals, and alternatives to compare them with.
//!
//! Each group of figures has its own file. `dumbbell` and `scale` measure the engine alone, `fluid`
//! rates instead of packets. `realtime` measures real programs through the engine, and
//! `virtual_time` does the same in virtual time. `ns3` compiles the same models for ns-3, and runs
//! them. `wire` measures the transport of the peering portal, and `parallel` the gain by a second
//! engine. `pair` runs one network in a single engine, or in two that wait for each other. `free`
//! runs it in two that do not wait, through peering portals or through `frames`, optionally with
//! `libpcap`. `mpi` is the paper's baseline. `engines` measures a second engine for real packets,
//! `errors` the effect of free-running engines on results, and `plan` estimates a thousand engines.
//! `figures` writes the paper's plots, and `tcp_models` compares the models of TCP with the
//! kernel's TCP.

mod compress;
mod dumbbell;
mod engines;
mod errors;
mod figures;
mod fluid;
mod frames;
mod free;
mod libpcap;
mod machine;
mod model;
mod mpi;
mod ns3;
mod pair;
mod parallel;
mod ping;
mod plan;
mod plot;
mod real_packets;
mod realtime;
mod scale;
mod sdn;
mod staircase;
mod tcp_models;
mod virtual_time;
mod waiting;
mod wire;

use crate::error::BenchError;
use crate::figure::{Better, Figure};
use crate::{Name, Options};

pub use figures::{NET_FIGURES, net_figures};
pub use tcp_models::{TCP_LOSSES, validate_tcp};

const BENCH: Name = Name::Net;

type Group = fn(&Options, &mut dyn FnMut(Figure)) -> Result<(), BenchError>;

/// `scale` is first, because it measures memory and the process has not grown yet.
const GROUPS: [(&str, Group); 10] = [
    ("scale", scale::run),
    ("dumbbell", dumbbell::run),
    ("fluid", fluid::run),
    ("wire", wire::run),
    ("parallel", parallel::run),
    ("mpi", mpi::run),
    ("errors", errors::run),
    ("realtime", realtime::run),
    ("virtual-time", virtual_time::run),
    ("engines", engines::run),
];

/// Groups whose figures depend on the machine's wake-up latency.
const IN_REAL_TIME: [&str; 4] = ["parallel", "errors", "realtime", "engines"];

/// Names of the groups of figures, each of which can be measured alone.
pub const NET_GROUPS: [&str; 10] = {
    let mut names = [""; 10];
    let mut index = 0;
    while index < names.len() {
        names[index] = GROUPS[index].0;
        index += 1;
    }
    names
};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for (name, group) in GROUPS {
        if options.only.as_deref().is_none_or(|only| only == name) {
            let stolen = machine::Stolen::start();
            let mut told = |one: Figure| figure(one.with("stolen", stolen.fraction()));
            if IN_REAL_TIME.contains(&name) {
                machine::wakes(name, options.pick(200, 1_000), &mut told);
            }
            group(options, &mut told)?;
        }
    }
    Ok(())
}

/// Returns the machine's load average of the last minute.
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
