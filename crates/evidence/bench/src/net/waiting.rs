//! The speed of engines that follow a clock, at the greatest sustained pace, divided by that of
//! engines that wait for each other, for delays of the cut link from 1 us to 1 ms.

use timeloom_run::exit::note;
use timeloom_time::Duration;

use super::free::Carrier;
use super::mpi::Mpi;
use super::pair::{self, Model};
use super::parallel::fastest;
use super::plot::Table;
use crate::error::BenchError;

const CUTS_US: [i64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
const COLUMNS: [&str; 5] = [
    "over MPI by TCP (portals by UDP)",
    "over MPI by shared memory (by it)",
    "over threads (portals by UDP)",
    "over threads (by shared memory)",
    "late, by shared memory",
];

/// Measures the curve; prints to stderr the range of delays for which the ratio exceeds 1.
pub(super) fn curve(quick: bool) -> Result<Table, BenchError> {
    let mpi = Mpi::find();
    let simulated = Duration::from_ms(if quick { 20 } else { 60 });
    let rounds = if quick { 1 } else { 3 };
    let mut rows = Vec::new();
    for cut_us in CUTS_US {
        let model = Model::tcp(16, Duration::from_us(cut_us));
        let mut found: [Vec<f64>; 5] = Default::default();
        for _ in 0..rounds {
            let waiting = pair::conservative(&model, simulated, false)?;
            let waiting = waiting.hops as f64 / waiting.wall_s;
            let udp = fastest(&model, simulated, Carrier::Udp)?;
            let ring = fastest(&model, simulated, Carrier::Ring)?;
            let over_mpi = mpi.as_ref().map(|mpi| mpi.ratios(cut_us)).transpose()?;
            let [by_tcp, by_memory] = over_mpi.unwrap_or([f64::NAN; 2]);
            let round = [
                by_tcp,
                by_memory,
                udp.hops_per_s / waiting,
                ring.hops_per_s / waiting,
                ring.late,
            ];
            for (all, one) in found.iter_mut().zip(round) {
                all.push(one);
            }
        }
        let medians = found.map(|all| crate::median(&all));
        rows.push((cut_us as f64, medians.to_vec()));
    }
    for (column, name) in COLUMNS[..4].iter().enumerate() {
        if rows.iter().all(|(_, row)| row[column].is_nan()) {
            note!("nothing is compared {name}: see `make test-mpi`");
            continue;
        }
        let wins = rows.iter().filter(|(_, row)| row[column] > 1.0);
        let wins: Vec<String> = wins.map(|(cut_us, _)| cut_us.to_string()).collect();
        match &wins[..] {
            [] => note!("engines that do not wait are not faster {name} at any cut"),
            _ => note!(
                "engines that do not wait are faster {name} at cuts of {} us",
                wins.join(", ")
            ),
        }
    }
    Ok(Table {
        name: "not-waiting",
        title: "Engines that do not wait over engines that do, packet hops per second",
        x: "us of the cut",
        y: "ratio",
        log: true,
        columns: COLUMNS.to_vec(),
        beside: 1,
        rows,
    })
}
