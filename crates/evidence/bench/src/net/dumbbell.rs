//! The dumbbell compared with ns-3: the same model, over the same simulated time.

use super::model::{self, Outcome, Shape};
use super::ns3::Ns3;
use super::{BENCH, higher};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let ns3 = match Ns3::compile()? {
        Ok(ns3) => Some(ns3),
        Err(why) => {
            (options.remark)(&format!("net: nothing is compared with ns-3: {why}"));
            None
        }
    };
    // ns-3 needs half a minute of CPU time per simulated second.
    for flows in options.pick(&[16][..], &[16, 64][..]) {
        let shape = Shape::paper(*flows, 100, options.pick(20, 100));
        against(&shape, options.pick(3, 5), ns3.as_ref(), figure)?;
    }
    if let Some(ns3) = ns3.filter(|_| !options.quick) {
        goodput(&ns3, figure)?;
    }
    over_flows(options, figure)
}

fn against(
    shape: &Shape,
    rounds: usize,
    ns3: Option<&Ns3>,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    // The simulated time is long for ns-3 and short for Timeloom, so several of Timeloom's runs are
    // made before and after each of ns-3's.
    let ours =
        || -> Result<Vec<Outcome>, BenchError> { (0..3).map(|_| model::run(shape)).collect() };
    let speed = |outcomes: &[Outcome]| {
        let sum: f64 = outcomes.iter().map(Outcome::hops_per_cpu_second).sum();
        sum / outcomes.len() as f64
    };
    let (mut own, mut theirs, mut ratios, mut walls) = (vec![], vec![], vec![], vec![]);
    let mut before = speed(&ours()?);
    for _ in 0..rounds {
        let peer = ns3.map(|ns3| ns3.run(shape)).transpose()?;
        let outcomes = ours()?;
        let after = speed(&outcomes);
        own.push(after);
        walls.extend(outcomes.iter().map(|o| o.wall_s / shape.simulated_s()));
        if let Some(peer) = peer {
            ratios.push((before + after) / 2.0 / peer.hops_per_cpu_second());
            theirs.push(peer.hops_per_cpu_second());
        }
        before = after;
    }
    let common = |figure: Figure| {
        figure
            .with("flows", shape.flows)
            .with("hosts", shape.hosts * 2)
            .with("simulated_s", shape.simulated_s())
    };
    let name = |metric: &str| match shape.flows {
        16 => metric.to_owned(),
        flows => format!("{metric}_{flows}_flows"),
    };
    if !ratios.is_empty() {
        let metric = Figure::new(BENCH, name("dumbbell_over_ns3"), "ratio", &ratios).bar(75.0);
        let metric = metric.with("ns3_hops_per_cpu_second", crate::median(&theirs));
        figure(higher(common(metric)).with("ns3", "Debian's 3.37, same model and window"));
    }
    let metric = Figure::new(BENCH, name("hops_per_cpu_second"), "1/s", &own).bar(5e6);
    figure(higher(common(metric)));
    let outcome = model::run(shape)?;
    let metric = Figure::new(BENCH, name("wall_over_simulated"), "ratio", &walls).bar(0.8);
    figure(common(metric).with("goodput_gbps", outcome.goodput() / 1e9));
    Ok(())
}

/// Compares the goodput of the flows over a sufficiently long time. Both simulators are
/// deterministic, so one run is enough.
fn goodput(ns3: &Ns3, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for flows in [16, 64] {
        let shape = Shape::paper(flows, 300, 500);
        let (own, peer) = (model::run(&shape)?, ns3.run(&shape)?);
        let deviation = (own.goodput() / peer.goodput() - 1.0).abs();
        let metric = format!("goodput_per_flow_off_ns3_{flows}_flows");
        figure(
            Figure::new(BENCH, metric, "ratio", &[deviation])
                .bar(0.03)
                .with("mbps_per_flow", own.goodput() / f64::from(flows) / 1e6)
                .with("ns3_mbps_per_flow", peer.goodput() / f64::from(flows) / 1e6)
                .with("simulated_s", shape.simulated_s()),
        );
        let metric = format!("fairness_{flows}_flows");
        figure(
            higher(Figure::new(BENCH, metric, "ratio", &[own.fairness()]))
                .with("ns3", peer.fairness())
                .with("counts", "Jain's index of goodput"),
        );
    }
    Ok(())
}

/// Measures wall time per simulated time, from a single flow to one per host.
fn over_flows(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for flows in [1, 2, 4, 8, 16, 32, 64] {
        let shape = Shape::paper(flows, 200, options.pick(200, 800));
        let runs = (0..options.pick(3, 5)).map(|_| model::run(&shape));
        let outcomes = runs.collect::<Result<Vec<_>, _>>()?;
        let walls: Vec<f64> = outcomes
            .iter()
            .map(|outcome| outcome.wall_s / shape.simulated_s())
            .collect();
        let metric = format!("wall_over_simulated_flows_{flows}");
        figure(
            Figure::new(BENCH, metric, "ratio", &walls)
                .with("goodput_gbps", outcomes[0].goodput() / 1e9),
        );
    }
    Ok(())
}
