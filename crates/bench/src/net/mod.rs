//! `net`: the network engine, its portals, and what they are compared with.
//!
//! One file per group of figures. `dumbbell` and `scale` measure the engine
//! alone; `realtime` measures real programs through it; `ns3` compiles and runs
//! the same models in ns-3.

mod dumbbell;
mod model;
mod ns3;
mod ping;
mod realtime;
mod scale;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::{Name, Options};

const BENCH: Name = Name::Net;

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    // First, while the process has not grown: it measures memory.
    scale::run(options, figure)?;
    dumbbell::run(options, figure)?;
    realtime::run(options, figure)
}
