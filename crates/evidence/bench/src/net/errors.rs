//! Effect of free-running engines on results: one seeded experiment with exact and with free
//! engines.
//!
//! The datagrams of Poisson sources are sent at the same instants in both runs, so that each can be
//! identified in both. TCP flows share the bottleneck with them.

use std::collections::HashMap;

use timeloom_net::{Arrival, PacketKind};
use timeloom_time::Duration;

use super::BENCH;
use super::free::{self, Free};
use super::pair::{self, Model};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;

/// Differences between an exact and a free run of one experiment.
pub(super) struct Difference {
    /// Differences of the arrival times of datagrams that arrived in both runs, in ns.
    pub(super) apart_ns: Vec<f64>,
    /// Fraction of consecutive arrivals in the exact run that were in opposite order in the free
    /// run.
    pub(super) inversions: f64,
    /// Delivered payload of the free run divided by that of the exact run, minus one.
    pub(super) goodput: f64,
    /// Fraction of datagrams that arrived in one of the runs only.
    pub(super) missing: f64,
    /// Fraction of packets that reached the other engine after their due time.
    pub(super) late: f64,
}

/// Returns a model with eight flows and sixteen sources across a bottleneck link with delay `bar`.
pub(super) fn model(bar: Duration) -> Model {
    Model {
        flows: 8,
        poisson: true,
        ..Model::udp(16, 8_000_000, bar)
    }
}

pub(super) fn compare(bar: Duration, simulated: Duration) -> Result<Difference, BenchError> {
    let model = model(bar);
    let exact = pair::conservative(&model, simulated, true)?;
    let how = Free {
        note: true,
        ..Free::default()
    };
    let free = free::free(&model, simulated, &how)?;
    let udp = |arrivals: &[Arrival]| -> Vec<Arrival> {
        let datagrams = arrivals
            .iter()
            .filter(|arrival| arrival.kind == PacketKind::Udp);
        datagrams.copied().collect()
    };
    let mut expected = udp(&exact.arrivals);
    expected.sort_by_key(|arrival| (arrival.at, arrival.flow, arrival.seq));
    let found = udp(&free.common.arrivals);
    let key = |arrival: &Arrival| (arrival.flow, arrival.seq);
    let places: HashMap<_, _> = found
        .iter()
        .map(|arrival| (key(arrival), arrival.at))
        .collect();
    let times = expected
        .iter()
        .map(|arrival| Some((arrival.at, *places.get(&key(arrival))?)));
    let times: Vec<_> = times.flatten().collect();
    let apart = times
        .iter()
        .map(|(exact, free)| (*free - *exact).as_ns().abs() as f64);
    let reversed = times
        .windows(2)
        .filter(|pair| pair[0].1 > pair[1].1)
        .count();
    let both = times.len() as f64;
    Ok(Difference {
        apart_ns: apart.collect(),
        inversions: reversed as f64 / both.max(1.0),
        goodput: free.common.delivered as f64 / exact.delivered.max(1) as f64 - 1.0,
        missing: 1.0 - both / expected.len().max(found.len()).max(1) as f64,
        late: free.late_fraction(),
    })
}

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for (name, bar) in [
        ("1ms", Duration::from_ms(1)),
        ("50us", Duration::from_us(50)),
    ] {
        let (mut middle, mut tail, mut inversions, mut goodput, mut late) =
            (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..options.pick(2, 5) {
            let found = compare(bar, Duration::from_ms(options.pick(200, 1_000)))?;
            if found.apart_ns.is_empty() {
                return Err(BenchError::Worker(
                    "no datagram arrived in both runs".to_owned(),
                ));
            }
            middle.push(crate::median(&found.apart_ns));
            tail.push(crate::percentile(&found.apart_ns, 99.0));
            inversions.push(found.inversions);
            goodput.push(found.goodput.abs());
            late.push(found.late);
        }
        let common = |figure: Figure| {
            figure
                .with("cut_ns", bar.as_ns())
                .with("late_fraction", crate::median(&late))
                .with("load", super::load())
        };
        let name = |metric: &str, unit: &str| format!("{metric}_{name}{unit}");
        let metric = name("unsynchronised_arrival_error_p50", "_ns");
        figure(common(Figure::new(BENCH, metric, "ns", &middle)));
        let metric = name("unsynchronised_arrival_error_p99", "_ns");
        figure(common(Figure::new(BENCH, metric, "ns", &tail)));
        let metric = name("unsynchronised_inversions", "");
        figure(common(Figure::new(BENCH, metric, "ratio", &inversions)));
        let metric = name("unsynchronised_goodput_error", "");
        figure(common(Figure::new(BENCH, metric, "ratio", &goodput)));
    }
    Ok(())
}
