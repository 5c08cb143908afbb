//! `pause --hosts`: pauses that several machines agree on, as in Figure 7 of Hannon et al. (PADS
//! 2019), by number of machines and number of processes on each.
//!
//! The machines are represented by child processes ([`agent`]), which communicate over loopback and
//! use the clock of the same machine. [`fleet`] makes them request pauses in turn. The figures
//! therefore do not include effects of a network between real machines. [`sheet`] makes the table.
//!
//! `pause` measures a single machine without a bus.

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

/// Combinations of machines and processes to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Numbers of machines.
    pub hosts: Vec<usize>,
    /// Numbers of processes on each machine.
    pub processes: Vec<usize>,
    /// Number of pauses per combination.
    pub pauses: usize,
}

/// Measurements of all pauses of one combination.
struct Cell {
    hosts: usize,
    processes: usize,
    pauses: Vec<Pause>,
}

/// Duration that is measured in each pause.
#[derive(Clone, Copy)]
struct Quantity {
    /// Key of the quantity in JSON.
    key: &'static str,
    heading: &'static str,
    /// Returns the values of one pause in nanoseconds: one per machine, or a single one.
    of: fn(&Pause) -> Vec<f64>,
    /// Half of a pause to which the paper has a corresponding value; `None` if it has none.
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

/// Measures agreed pauses. Requires that in each pause, all machines stop at one virtual nanosecond
/// and resume at one instant.
///
/// # Errors
/// Fails if a machine cannot be started or fails, or if two machines stop at different instants.
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
            // The lengths vary from 0 to 3 ms, so that neighbouring pauses differ.
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

    /// Returns the offsets of all machines' clocks from the common line, at all pauses.
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
