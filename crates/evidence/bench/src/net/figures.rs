//! The paper's figures, measured on this machine, as tables (CSV) and plots (SVG).

use std::path::Path;

use timeloom_run::exit::note;
use timeloom_time::Duration;

use super::free::{self, Free};
use super::mpi::Mpi;
use super::pair::{self, Model};
use super::plot::Table;
use super::{compress, errors, plan, sdn, staircase, waiting};
use crate::error::BenchError;

/// Result of measuring a figure; the inner error is the reason for which this machine cannot
/// measure it.
type Made = Result<Result<Table, String>, BenchError>;
/// Function that measures a figure; the argument is true for a quick version.
type Maker = fn(bool) -> Made;

const MAKERS: [(&str, Maker); 12] = [
    ("figure-07", |quick| made(staircase::conservative(quick))),
    ("figure-07-wall", |_| conservative()),
    ("figure-08", |quick| made(staircase::tcp(quick))),
    ("figure-09", |quick| made(staircase::udp(quick))),
    ("figure-10", |quick| made(staircase::mixed(quick))),
    ("figure-11", sdn::figure),
    ("not-waiting", |quick| made(waiting::curve(quick))),
    ("batch-size", |_| batches()),
    ("hold-time", |_| holds()),
    ("compression", |_| Ok(Ok(compress::figure()))),
    ("arrival-errors", |_| differences()),
    ("plan", |quick| made(plan::table(quick))),
];

/// Wraps the table of a figure that has no requirements on the machine as a measured figure.
fn made(table: Result<Table, BenchError>) -> Made {
    table.map(Ok)
}

/// Names of the figures of [`net_figures`].
pub const NET_FIGURES: [&str; MAKERS.len()] = {
    let mut names = [""; MAKERS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = MAKERS[index].0;
        index += 1;
    }
    names
};

/// Measures all figures, or the one named `only`, and writes them into `directory`. `say` is called
/// with messages about the progress. With `quick`, a step of a staircase takes a tenth of a second,
/// not ten.
///
/// # Errors
///
/// Fails if a figure cannot be measured or written.
pub fn net_figures(
    directory: &Path,
    only: Option<&str>,
    quick: bool,
    say: fn(&str),
) -> Result<(), BenchError> {
    std::fs::create_dir_all(directory).map_err(BenchError::system(format!(
        "making {}",
        directory.display()
    )))?;
    for (name, make) in MAKERS {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let table = match make(quick)? {
            Ok(table) => table,
            Err(why) => {
                say(&format!("{name} is left out: {why}"));
                continue;
            }
        };
        say(&format!("{}: {}", table.name, table.title));
        for (ending, text) in [("csv", table.csv()), ("svg", table.svg())] {
            let path = directory.join(format!("{}.{ending}", table.name));
            std::fs::write(&path, text)
                .map_err(BenchError::system(format!("writing {}", path.display())))?;
        }
    }
    Ok(())
}

const FLOWS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Delay of the dumbbell's bottleneck link, which is cut. It is long enough for packets to arrive
/// in time.
const BAR: Duration = Duration::from_us(100);
const SPAN: Duration = Duration::from_ms(400);

/// Measures Figure 7: the run time of engines that wait for each other, as threads and, if
/// available, over MPI as in the paper.
fn conservative() -> Made {
    let mpi = Mpi::find();
    let mut rows = Vec::new();
    for flows in FLOWS {
        let mut row = Vec::new();
        for bar in [Duration::from_us(1), BAR, Duration::from_ms(1)] {
            let simulated = Duration::from_ms(if bar < BAR { 40 } else { 200 });
            let found = pair::conservative(&Model::tcp(flows, bar), simulated, false)?;
            row.push(found.wall_s / simulated.as_s_f64());
        }
        for cut_us in [1, 100] {
            let found = mpi.as_ref().map(|mpi| mpi.conservative(flows, cut_us));
            let found = found.transpose()?;
            row.push(found.map_or(f64::NAN, |line| 1.0 / line.simulated_over_wall));
        }
        rows.push((f64::from(flows), row));
    }
    Ok(Ok(Table {
        name: "figure-07-wall",
        title: "Two engines that wait: wall time over simulated time",
        x: "TCP flows",
        y: "wall over simulated time",
        log: true,
        columns: vec![
            "threads, cut 1 us",
            "threads, cut 100 us",
            "threads, cut 1 ms",
            "MPI by TCP, cut 1 us",
            "MPI by TCP, cut 100 us",
        ],
        beside: 0,
        rows,
    }))
}

fn cost(model: &Model, how: &Free) -> Result<Vec<f64>, BenchError> {
    let found = free::free(model, SPAN, how)?;
    let packets: u64 = found.peers.iter().map(|peer| peer.packets_sent).sum();
    let bytes: u64 = found.peers.iter().map(|peer| peer.bytes_sent).sum();
    let cpu: f64 = found.common.cpu_s.iter().sum();
    let packets = packets.max(1) as f64;
    Ok(vec![
        bytes as f64 / packets,
        cpu * 1e6 / packets,
        found.late_fraction() * 100.0,
    ])
}

const COST: [&str; 3] = ["bytes per packet", "us of CPU per packet", "late, per cent"];

/// Measures the effect of the size of batches.
fn batches() -> Made {
    let rows = [200, 400, 700, 1_400, 4_000, 9_000, 32_000].map(|bytes| {
        let how = Free {
            bytes,
            ..Free::default()
        };
        Ok((bytes as f64, cost(&Model::tcp(8, BAR), &how)?))
    });
    Ok(Ok(Table {
        name: "batch-size",
        title: "Batching at the sender by size, 8 flows",
        x: "bytes of a datagram",
        y: "",
        log: true,
        columns: COST.to_vec(),
        beside: 1,
        rows: rows.into_iter().collect::<Result<_, BenchError>>()?,
    }))
}

/// Measures the effect of the time for which packets are held, at sender and receiver.
fn holds() -> Made {
    let rows = [1, 5, 10, 20, 50, 100, 200].map(|us| {
        let hold = Duration::from_us(us);
        let how = Free {
            hold,
            receiver_hold: hold,
            ..Free::default()
        };
        Ok((us as f64, cost(&Model::tcp(8, BAR), &how)?))
    });
    Ok(Ok(Table {
        name: "hold-time",
        title: "Holding at sender and receiver, 8 flows, cut of 100 us",
        x: "us held at most",
        y: "",
        log: true,
        columns: COST.to_vec(),
        beside: 1,
        rows: rows.into_iter().collect::<Result<_, BenchError>>()?,
    }))
}

/// Measures the distribution of the differences between arrival times and those of the exact run.
fn differences() -> Made {
    let bars = [10, 50, 100, 1_000].map(Duration::from_us);
    let found = bars.map(|bar| errors::compare(bar, SPAN));
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let percents = [
        1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0,
    ];
    let rows = percents.map(|percent| {
        let at = |found: &errors::Difference| match found.apart_ns[..] {
            [] => f64::NAN,
            ref all => crate::percentile(all, percent) / 1e3,
        };
        (percent, found.iter().map(at).collect())
    });
    for (bar, found) in bars.iter().zip(&found) {
        note!(
            "cut {} us: inversions {:.5}, goodput {:+.4}, late {:.5}, in one run only {:.5}",
            bar.as_ns() / 1_000,
            found.inversions,
            found.goodput,
            found.late,
            found.missing
        );
    }
    Ok(Ok(Table {
        name: "arrival-errors",
        title: "Arrivals without synchronisation against the exact run",
        x: "per cent of datagrams",
        y: "us apart, at most",
        log: false,
        columns: vec!["cut 10 us", "cut 50 us", "cut 100 us", "cut 1 ms"],
        beside: 0,
        rows: rows.into(),
    }))
}
