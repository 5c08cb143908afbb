//! `pause --hosts`: pauses agreed between several machines, as in Figure 7 of Hannon et al. (PADS
//! 2019), by number of machines and of processes on each.
//!
//! The machines are child processes that communicate over loopback and share the machine's clock
//! ([`agent`]); [`fleet`] lets them request pauses in turn. Effects of a network between real
//! machines are not in the figures. [`sheet`] is the table.
//!
//! A single machine without a bus is measured by `pause`.

pub(crate) mod agent;
mod fleet;
mod paper;
mod sheet;

use std::time::Duration;

use serde_json::{Value, json};

use self::fleet::{Fleet, Pause};
use crate::error::BenchError;
use crate::stats::median_interval;
use crate::{Experiment, Options, median, percentile};

/// Combinations of pauses to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Numbers of machines.
    pub hosts: Vec<usize>,
    /// Numbers of processes on each machine.
    pub processes: Vec<usize>,
    /// Number of pauses per combination.
    pub pauses: usize,
}

/// All pauses of one combination.
struct Cell {
    hosts: usize,
    processes: usize,
    pauses: Vec<Pause>,
}

/// A duration within a pause.
#[derive(Clone, Copy)]
struct Quantity {
    /// Key in JSON.
    key: &'static str,
    heading: &'static str,
    /// Nanoseconds; one per machine, or one.
    of: fn(&Pause) -> Vec<f64>,
    /// The corresponding value of the paper.
    paper: Option<paper::Side>,
}

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        key: "own_stop",
        heading: "own stop",
        of: |pause| pause.own_stop.clone(),
        paper: Some(paper::Side::Pause),
    },
    Quantity {
        key: "stop",
        heading: "all stop",
        of: |pause| vec![pause.stop],
        paper: None,
    },
    Quantity {
        key: "own_resume",
        heading: "own resume",
        of: |pause| pause.own_resume.clone(),
        paper: Some(paper::Side::Resume),
    },
    Quantity {
        key: "resume",
        heading: "all resume",
        of: |pause| vec![pause.resume],
        paper: None,
    },
    Quantity {
        key: "running",
        heading: "all running",
        of: |pause| vec![pause.running],
        paper: None,
    },
];

/// Measures agreed pauses, and requires that in each all machines stopped at one virtual nanosecond
/// and resumed at one time.
///
/// # Errors
/// Fails if a machine could not be started or failed, or if two stopped at different times.
pub fn pause_of_machines(options: &Options, machines: &Machines) -> Result<Experiment, BenchError> {
    let mut cells = Vec::new();
    for &hosts in &machines.hosts {
        for &processes in &machines.processes {
            (options.remark)(&format!("pauses of {hosts} × {processes} processes"));
            cells.push(Cell::measure(options, hosts, processes, machines.pauses)?);
        }
    }
    Ok(Experiment {
        rows: cells.iter().flat_map(Cell::rows).collect(),
        sheet: sheet::sheet(&cells),
    })
}

impl Cell {
    fn measure(
        options: &Options,
        hosts: usize,
        processes: usize,
        count: usize,
    ) -> Result<Self, BenchError> {
        let mut fleet = Fleet::start(options, hosts, processes)?;
        fleet.pause(0, Duration::ZERO)?; // warm-up
        let turns = (0..count).map(|turn| {
            std::thread::sleep(Duration::from_millis(1));
            // Varying lengths of 0 to 3 ms, so that neighbours differ.
            let length = Duration::from_micros((turn as u64 * 1_103) % 3_000);
            fleet.pause(turn % hosts, length)
        });
        let pauses = turns.collect::<Result<_, _>>()?;
        Ok(Self {
            hosts,
            processes,
            pauses,
        })
    }

    fn samples(&self, quantity: Quantity) -> Vec<f64> {
        self.pauses.iter().flat_map(quantity.of).collect()
    }

    fn rows(&self) -> Vec<Value> {
        let times = QUANTITIES.iter().map(|quantity| {
            let samples = self.samples(*quantity);
            let paper = quantity.paper.and_then(|side| self.paper(side));
            (quantity.key, samples, paper)
        });
        let ahead: Vec<f64> = self.pauses.iter().map(|pause| pause.ahead).collect();
        let off: Vec<f64> = self.off();
        let beside = [("ahead", ahead, None), ("off", off, None)];
        let row = |(key, samples, paper): (&str, Vec<f64>, Option<f64>)| {
            let (low, high) = median_interval(&samples);
            json!({
                "bench": "pause",
                "metric": format!("{key}_{}x{}_ns", self.hosts, self.processes),
                "hosts": self.hosts,
                "processes_each": self.processes,
                "pauses": self.pauses.len(),
                "value": median(&samples),
                "unit": "ns",
                "low": low,
                "high": high,
                "p5": percentile(&samples, 5.0),
                "p95": percentile(&samples, 95.0),
                "n": samples.len(),
                "paper_ns": paper.map(|us| us * 1e3),
            })
        };
        times.chain(beside).map(row).collect()
    }

    /// Returns the offsets of clocks from the common line, of all machines at all pauses.
    fn off(&self) -> Vec<f64> {
        self.pauses
            .iter()
            .flat_map(|pause| pause.off.clone())
            .collect()
    }

    fn paper(&self, side: paper::Side) -> Option<f64> {
        paper::mean_us(side, self.hosts, self.processes)
    }
}
