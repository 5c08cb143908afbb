//! `timeline`: cost of reading a time with its error interval, compared with reading one without.
//!
//! In this process, `local` measures the interval, strictly increasing readings per thread and per
//! process, RVEC over the time-stamp counter, reads during writes, and a publication. In other
//! programs, which interleave their rounds in the same way, `programs` measures ClockBound's
//! clients on segments that Timeloom writes, and Python. Programs that are not available are
//! reported and skipped.

mod cycles;
mod local;
mod page;
mod programs;

use crate::cores::{measuring_core, pin};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::ticks::Scale;
use crate::{Name, Options};

use page::Published;
pub(crate) use page::clock_ns;

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let scale = Scale::calibrate();
    let published = Published::new()?;
    local::publish(options, &published, scale, figure);
    local::readers(options, &published, scale, figure)?;
    local_reads(options, &published, scale, figure)?;
    let core = measuring_core();
    programs::peers(options, &published, core, figure)?;
    programs::python(options, &published, core, figure)
}

/// Measures only the cost of reading the clocks in this process.
pub(crate) fn reads(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let published = Published::new()?;
    local_reads(options, &published, Scale::calibrate(), figure)
}

fn local_reads(
    options: &Options,
    published: &Published,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let core = measuring_core();
    // The measurement runs in a thread of its own, so that the rest of the process keeps its
    // affinity.
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            pin(core);
            let mut figures = Vec::new();
            local::reads(options, published, scale, &mut |figure| {
                figures.push(figure.with("core", core));
            })
            .map(|()| figures)
        });
        reads.join().expect("reading a clock does not panic")
    })?
    .into_iter()
    .for_each(figure);
    Ok(())
}

const BENCH: Name = Name::Timeline;
