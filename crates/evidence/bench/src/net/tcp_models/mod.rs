//! Comparison of the models of TCP with the kernel's TCP, and of both with formulas.
//!
//! iperf3 between two namespaces, and a flow of the model, use the same link: rate, delay, queue,
//! loss and seed are equal. (The link with the kernel's TCP also carries ARP and iperf3's control
//! connection, so losses agree in distribution, but not packet by packet.) The kernel's TCP runs in
//! real time, and so does the engine meanwhile.
//!
//! `timeloom bench net --validate` runs the comparison. [`BOUND`] is the accepted ratio between
//! kernel and model. Each row shows whether its ratio is within the bounds, and exceptions are
//! reported as remarks.

mod formula;
mod kernel;
mod sheet;

use serde_json::{Value, json};
use timeloom_engine::Engine;
use timeloom_net::{
    Control, Impairment, LinkConfig, NetworkBuilder, Node, QueueConfig, TcpConfig, World,
};
use timeloom_time::{Duration, Instant};

use crate::error::BenchError;
use crate::{Experiment, Options, median};

/// Combination of the parameters on which the goodput depends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    control: Control,
    loss: f64,
    round_trip: Duration,
}

/// Results of one cell, from kernel and model.
struct Found {
    cell: Cell,
    /// Payload throughput of the kernel's TCP in Mbit/s, by seed and copy.
    kernel_mbps: Vec<f64>,
    /// The same with a kernel that does not wait until a third of its window can be sent at once
    /// (`tcp_tso_win_divisor`).
    at_once_mbps: Vec<f64>,
    /// Mean round-trip time as measured by the kernel, in ms.
    kernel_round_trip_ms: Vec<f64>,
    /// Payload throughput of the model in Mbit/s, by seed.
    model_mbps: Vec<f64>,
    /// Payload throughput of the model for additional seeds, which show the spread of the model.
    spread_mbps: Vec<f64>,
    formula_mbps: f64,
    /// Segments that the kernel retransmitted, per thousand sent.
    kernel_again: Vec<f64>,
    model_again: Vec<f64>,
    model_timeouts: u64,
}

/// Rate of the links, in bit/s. At most loss rates the flows do not reach it, and engine, kernel
/// and iperf3 sustain it on a machine with other load.
const RATE_BPS: u64 = 100_000_000;
const LOSSES: [(&str, f64); 3] = [("0.0001", 1e-4), ("0.001", 1e-3), ("0.01", 1e-2)];
/// Loss rates, each of which can be measured alone.
pub const TCP_LOSSES: [&str; 3] = [LOSSES[0].0, LOSSES[1].0, LOSSES[2].0];
const ROUND_TRIPS: [Duration; 3] = [
    Duration::from_ms(10),
    Duration::from_ms(50),
    Duration::from_ms(100),
];
const CONTROLS: [Control; 4] = [
    Control::NewReno,
    Control::Cubic,
    Control::Cubic8312,
    Control::Bbr,
];
/// Bounds of the kernel's goodput divided by the model's. The lower bound allows for CUBIC of RFC
/// 9438 at high loss. The kernel's Reno-friendly window always grows by 0.53 segments per round
/// trip, as in RFC 8312; that of RFC 9438 grows by a whole segment once it has reached its previous
/// maximum.
const BOUND: (f64, f64) = (0.75, 1.25);
/// Payload of a segment in bytes, as Linux sends it over Ethernet.
const SEGMENT_BYTES: f64 = 1448.0;

/// Behaviour of the kernel when its window permits only a part of a large segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// The kernel waits for acknowledgements that permit more, up to a third of the window, because
    /// larger segments cost less.
    AsUsual,
    /// The kernel sends immediately, as the model does and as the formulas assume.
    AtOnce,
}

/// Durations and numbers of runs.
#[derive(Clone, Copy)]
struct Effort {
    /// Time in seconds at the beginning, with slow start, that is not counted.
    omit_s: u32,
    seconds: u32,
    seeds: u64,
    /// Number of seeds with which the model alone is run.
    model_seeds: u64,
}

impl Cell {
    fn link(self) -> LinkConfig {
        let half = Duration::from_ns(self.round_trip.as_ns() / 2);
        // The queue has one bandwidth-delay product, so that at low loss it is filled, and the
        // round-trip time is at most doubled.
        let packets = RATE_BPS as f64 / 8.0 / 1538.0 * self.round_trip.as_s_f64();
        LinkConfig::new(RATE_BPS, half).with_queue(QueueConfig::DropTail {
            packets: packets as u32,
        })
    }
}

/// Returns the cells of one row, which have the same loss and run at the same time. Where flows are
/// slow, the link has room for several copies of each, and more copies are needed.
fn row(loss: f64) -> Vec<Cell> {
    let copies = if loss > 5e-3 {
        4
    } else if loss > 5e-4 {
        2
    } else {
        1
    };
    let distinct = distinct(loss);
    let more = distinct.repeat(copies - 1).into_iter();
    // Losses do not reduce BBR's rate. A single copy fills the link and is sufficient.
    let more = more.filter(|cell| cell.control != Control::Bbr);
    distinct.iter().copied().chain(more).collect()
}

/// Returns true if the machine's kernel supports this congestion control.
fn is_known(control: Control) -> bool {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let mut known = known.iter().flat_map(|text| text.split_whitespace());
    known.any(|name| name == kernels_name(control))
}

fn distinct(loss: f64) -> Vec<Cell> {
    let controls = CONTROLS.iter().filter(|control| is_known(**control));
    let cells = controls.flat_map(|control| {
        ROUND_TRIPS.iter().map(|round_trip| Cell {
            control: *control,
            loss,
            round_trip: *round_trip,
        })
    });
    cells.collect()
}

/// Builds a sender, a router and a receiver for each cell. As in the formulas, data can be lost, on
/// the second link, and acknowledgements cannot.
fn network(cells: &[Cell], seed: u64) -> (NetworkBuilder, Vec<(Node, Node)>) {
    let mut network = NetworkBuilder::new(seed);
    let ends = cells.iter().enumerate().map(|(index, cell)| {
        let from = network.host(format!("a{index}"));
        let router = network.router(format!("r{index}"));
        let to = network.host(format!("b{index}"));
        // A host passes frames to its first link as to a network card.
        let card = LinkConfig::new(1_000_000_000_000, Duration::ZERO);
        network.connect(from, router, card);
        let link = cell.link();
        let forth = link.clone().with_impairment(Impairment::loss(cell.loss));
        network.connect_unlike(router, to, forth, link);
        (from, to)
    });
    let ends = ends.collect();
    (network, ends)
}

/// Runs the model for one row. Returns Mbit/s, retransmitted segments per thousand, and timeouts of
/// each cell.
fn model(cells: &[Cell], seed: u64, effort: Effort) -> Result<Vec<(f64, f64, u64)>, BenchError> {
    let (network, ends) = network(cells, seed);
    let refused = |error| super::model::refused(error);
    let mut world: World = network.build().map_err(refused)?;
    let mut flows = Vec::new();
    for (cell, (from, to)) in cells.iter().zip(ends) {
        let config = TcpConfig {
            control: cell.control,
            ..TcpConfig::default()
        };
        flows.push(world.add_tcp(from, to, config).map_err(refused)?);
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let begin = Instant::ZERO + Duration::from_s(i64::from(effort.omit_s));
    engine.run_until(begin, u64::MAX);
    let stats = |engine: &Engine<World>| -> Vec<_> {
        flows.iter().map(|flow| engine.model.tcp(*flow)).collect()
    };
    let before = stats(&engine);
    let seconds = Duration::from_s(i64::from(effort.seconds));
    engine.run_until(begin + seconds, u64::MAX);
    let after = stats(&engine);
    let found = before.iter().zip(&after).map(|(before, after)| {
        let bytes = (after.delivered_bytes - before.delivered_bytes) as f64;
        let segments = bytes / SEGMENT_BYTES;
        let again = (after.retransmitted - before.retransmitted) as f64;
        (
            bytes * 8e-6 / f64::from(effort.seconds),
            1e3 * again / segments.max(1.0),
            after.timeouts - before.timeouts,
        )
    });
    Ok(found.collect())
}

/// Measures all cells. This takes minutes, since the kernel's TCP runs in real time; with `quick`,
/// fewer runs are made.
///
/// # Errors
/// Fails if iperf3, namespaces or the emulation are not available.
pub fn validate_tcp(options: &Options) -> Result<Experiment, BenchError> {
    let effort = Effort {
        omit_s: 3,
        seconds: options.pick(25, 40),
        seeds: options.pick(1, 3),
        model_seeds: options.pick(10, 20),
    };
    let mut found = Vec::new();
    let mut late = Vec::new();
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    for (name, loss) in LOSSES {
        if !wanted(name) {
            continue;
        }
        (options.remark)(&format!("loss {} %", loss * 100.0));
        let cells = row(loss);
        let distinct = distinct(loss);
        let mut rows: Vec<Found> = distinct.iter().map(|cell| Found::new(*cell)).collect();
        for seed in 1..=effort.seeds.max(effort.model_seeds) {
            let modelled = model(&cells, seed, effort)?;
            for (cell, (mbps, again, timeouts)) in cells.iter().zip(modelled) {
                let row = &mut rows[place(&distinct, cell)];
                row.spread_mbps.push(mbps);
                if seed <= effort.seeds {
                    row.model_mbps.push(mbps);
                    row.model_again.push(again);
                    row.model_timeouts += timeouts;
                }
            }
            if seed <= effort.seeds {
                let measured = kernel::run(&cells, seed, effort, Sending::AsUsual)?;
                let at_once = kernel::run(&cells, seed, effort, Sending::AtOnce)?;
                late.extend([measured.late, at_once.late]);
                let flows = measured.flows.iter().zip(at_once.flows);
                for (cell, (flow, at_once)) in cells.iter().zip(flows) {
                    let row = &mut rows[place(&distinct, cell)];
                    row.kernel_mbps.push(flow.mbps);
                    row.kernel_again.push(flow.again);
                    row.kernel_round_trip_ms.push(flow.round_trip_ms);
                    row.at_once_mbps.push(at_once.mbps);
                }
            }
        }
        for row in rows.iter().filter(|row| !row.is_within()) {
            (options.remark)(&format!(
                "{} at {} % loss and {}: {:.3} of the model, beyond {BOUND:?}",
                control_name(row.cell.control),
                loss * 100.0,
                row.cell.round_trip,
                row.ratio()
            ));
        }
        found.append(&mut rows);
    }
    Ok(Experiment {
        rows: found.iter().map(|found| found.json(&late)).collect(),
        sheet: sheet::sheet(&found, effort, &late),
    })
}

fn place(distinct: &[Cell], cell: &Cell) -> usize {
    let mut distinct = distinct.iter();
    distinct
        .position(|other| other == cell)
        .expect("each cell is one of these")
}

impl Found {
    fn new(cell: Cell) -> Self {
        Self {
            cell,
            kernel_mbps: Vec::new(),
            at_once_mbps: Vec::new(),
            kernel_round_trip_ms: Vec::new(),
            model_mbps: Vec::new(),
            spread_mbps: Vec::new(),
            formula_mbps: formula::mbps(cell),
            kernel_again: Vec::new(),
            model_again: Vec::new(),
            model_timeouts: 0,
        }
    }

    /// Returns the kernel's goodput divided by the model's; each is the mean over the common seeds.
    fn ratio(&self) -> f64 {
        mean(&self.kernel_mbps) / mean(&self.model_mbps)
    }

    fn is_within(&self) -> bool {
        (BOUND.0..=BOUND.1).contains(&self.ratio())
    }

    /// Returns the goodput of a kernel that sends immediately divided by the model's; each is the
    /// mean over the common seeds.
    fn at_once_ratio(&self) -> f64 {
        mean(&self.at_once_mbps) / mean(&self.model_mbps)
    }

    fn json(&self, late: &[f64]) -> Value {
        let control = control_name(self.cell.control);
        json!({
            "bench": "net", "metric": "tcp_kernel_over_model", "unit": "ratio",
            "value": self.ratio(), "bound": BOUND, "within": self.is_within(), "control": control, "loss": self.cell.loss,
            "round_trip_ns": self.cell.round_trip.as_ns(),
            "at_once_over_model": self.at_once_ratio(), "at_once_mbps": self.at_once_mbps,
            "kernel_round_trip_ms": mean(&self.kernel_round_trip_ms),
            "kernel_mbps": self.kernel_mbps, "model_mbps": self.model_mbps,
            "model_spread_mbps": self.spread_mbps, "formula_mbps": self.formula_mbps,
            "kernel_retransmitted_per_1000": mean(&self.kernel_again),
            "model_retransmitted_per_1000": mean(&self.model_again),
            "model_timeouts": self.model_timeouts,
            "rate_bps": RATE_BPS, "late_fraction_1ms": median(late), "load": super::load(),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the kernel's name of the corresponding congestion control; the kernel has only one
/// CUBIC.
fn kernels_name(control: Control) -> &'static str {
    match control {
        Control::Cubic8312 => "cubic",
        other => control_name(other),
    }
}

fn control_name(control: Control) -> &'static str {
    match control {
        Control::NewReno => "reno",
        Control::Cubic => "cubic",
        Control::Cubic8312 => "cubic-8312",
        Control::Bbr => "bbr",
        Control::Dctcp => "dctcp",
    }
}
