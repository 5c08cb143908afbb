//! Gain by a second engine, with and without waiting, and the lateness that results from not
//! waiting.

use timeloom_time::Duration;

use super::free::{self, Carrier, Free, FreeOutcome};
use super::pair::{self, Model};
use super::{BENCH, higher, load};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    two_over_one(options, figure)?;
    lateness(options, figure)?;
    over_conservative(options, figure)?;
    over_frames(options, figure)
}

/// Measures the speed of two engines divided by that of one. Each value is compared with the mean
/// of its two neighbours in the round.
fn two_over_one(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let simulated = Duration::from_ms(options.pick(200, 500));
    let across = |bar| Model::tcp(16, bar);
    // One flow in eight crosses the cut, as in a network that is cut at its thinnest point.
    let local = |bar| Model {
        local: 14,
        ..Model::tcp(2, bar)
    };
    for (name, model) in [
        ("two_engines_over_one", local(Duration::from_us(100))),
        (
            "two_engines_over_one_all_cross",
            across(Duration::from_ms(1)),
        ),
        (
            "two_engines_over_one_all_cross_100us",
            across(Duration::from_us(100)),
        ),
    ] {
        pair::conservative(&model, simulated, false)?;
        let mut before = pair::single(&model, simulated)?;
        let mut ratios = Vec::new();
        for _ in 0..options.pick(5, 9) {
            let two = pair::conservative(&model, simulated, false)?;
            let after = pair::single(&model, simulated)?;
            ratios.push((before.wall_s + after.wall_s) / 2.0 / two.wall_s);
            before = after;
        }
        figure(
            higher(Figure::new(BENCH, name, "ratio", &ratios))
                .bar(1.7)
                .with("cut_ns", model.bar.as_ns())
                .with("flows_across", model.flows)
                .with("flows_on_each_side", model.local)
                .with("load", load())
                .with(
                    "engines",
                    "two threads that wait for one another, each on a core of its own",
                ),
        );
    }
    Ok(())
}

fn lateness(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for (name, bar, bar_fraction) in [
        ("late_fraction_1ms", Duration::from_ms(1), 0.0005),
        ("late_fraction_50us", Duration::from_us(50), 0.005),
    ] {
        // The load is 20,000 packets per second, as in the figures of the plain socket.
        let model = Model {
            poisson: true,
            ..Model::udp(20, 8_000_000, bar)
        };
        let mut fractions = Vec::new();
        let mut last = None;
        for _ in 0..options.pick(3, 5) {
            let found = free::free(
                &model,
                Duration::from_ms(options.pick(500, 1_500)),
                &Free::default(),
            )?;
            fractions.push(found.late_fraction());
            last = Some(found);
        }
        let last = last.expect("a round");
        figure(
            Figure::new(BENCH, name, "ratio", &fractions)
                .bar(bar_fraction)
                .with("packets", last.taken)
                .with("late_p99_ns", last.late_p99_ns)
                .with("load", load())
                .with(
                    "counts",
                    "packets that came to the other engine after their instant",
                ),
        );
    }
    Ok(())
}

/// Paces to try, in simulated time per wall time.
const RATES: [f64; 14] = [
    0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0,
];

/// Greatest pace that two engines sustain which do not wait for each other.
#[derive(Default)]
pub(super) struct Fastest {
    /// Simulated time per wall time.
    speed: f64,
    /// Packet hops per second of wall time. At a greater pace, a run simulates more time and more
    /// of it at full load, so that simulated time alone is not comparable.
    pub(super) hops_per_s: f64,
    pub(super) late: f64,
    goodput_gbps: f64,
}

/// Finds the greatest sustained pace. A pace is sustained if fewer than one event in ten is more
/// than 1 ms late. This allows for the kernel, which withholds the processor from real-time threads
/// for a twentieth of the time.
pub(super) fn fastest(
    model: &Model,
    simulated: Duration,
    carrier: Carrier,
) -> Result<Fastest, BenchError> {
    let mut best = Fastest::default();
    for rate in RATES {
        let length = Duration::from_ns((simulated.as_ns() as f64 * rate.max(1.0)) as i64);
        let how = Free {
            carrier,
            rate,
            ..Free::default()
        };
        let found = free::free(model, length, &how)?;
        let speed = length.as_s_f64() / found.common.wall_s;
        if found.behind <= 0.1 && speed > best.speed {
            best = Fastest {
                speed,
                hops_per_s: found.common.hops as f64 / found.common.wall_s,
                late: found.late_fraction(),
                goodput_gbps: found.common.delivered as f64 * 8.0 / length.as_s_f64() / 1e9,
            };
        }
    }
    Ok(best)
}

/// Measures free-running engines against waiting engines, both within one process: over shared
/// memory, and over UDP.
fn over_conservative(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for (name, bar) in [
        ("peering_over_conservative", Duration::from_us(1)),
        ("peering_over_conservative_100us", Duration::from_us(100)),
    ] {
        let model = Model::tcp(16, bar);
        let simulated = Duration::from_ms(options.pick(60, 200));
        let (mut waiting, mut rings, mut udp) = (vec![], vec![], vec![]);
        for _ in 0..options.pick(2, 5) {
            let found = pair::conservative(&model, simulated, false)?;
            waiting.push(found.hops as f64 / found.wall_s);
            rings.push(fastest(&model, simulated, Carrier::Ring)?);
            udp.push(fastest(&model, simulated, Carrier::Udp)?);
        }
        for (name, carrier, found) in [
            (name.to_owned(), "shared memory", rings),
            (format!("{name}_udp"), "UDP on loopback", udp),
        ] {
            let ratios = found.iter().zip(&waiting);
            let ratios: Vec<f64> = ratios
                .map(|(one, waiting)| one.hops_per_s / waiting)
                .collect();
            let of = |value: fn(&Fastest) -> f64| {
                crate::median(&found.iter().map(value).collect::<Vec<_>>())
            };
            figure(
                higher(Figure::new(BENCH, name, "ratio", &ratios))
                    .bar(2.0)
                    .with("carrier", carrier)
                    .with("simulated_over_wall", of(|one| one.speed))
                    .with("hops_per_second", of(|one| one.hops_per_s))
                    .with("waiting_hops_per_second", crate::median(&waiting))
                    .with("late_fraction", of(|one| one.late))
                    .with("goodput_gbps", of(|one| one.goodput_gbps))
                    .with("cut_ns", bar.as_ns())
                    .with("load", load())
                    .with(
                        "counts",
                        "packet hops per second of wall time: two engines that share a clock, at the fastest pace they keep, over two that wait",
                    ),
            );
        }
    }
    Ok(())
}

/// Transport of whole frames between two engines, with which the peering portal is compared.
struct Baseline {
    metric: &'static str,
    what: &'static str,
    run: fn(&Model, Duration) -> Result<FreeOutcome, BenchError>,
}

const BASELINES: [Baseline; 2] = [
    Baseline {
        metric: "peering_over_pcap_udp",
        what: "libpcap",
        run: free::by_libpcap,
    },
    Baseline {
        metric: "peering_over_raw_sockets_udp",
        what: "a raw socket and a call for each frame",
        run: free::by_frames,
    },
];

/// Measures the peering portal against whole frames, the paper's alternative. The figure is the
/// greatest throughput in real time over several loads, since overloaded portals carry less.
fn over_frames(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let simulated = Duration::from_ms(options.pick(100, 300));
    let model = |sources| Model::udp(sources, SOURCE_BPS, Duration::from_us(100));
    let gbps = |found: &FreeOutcome| {
        found.common.delivered as f64 * 8e-9 / found.common.wall_s.max(simulated.as_s_f64())
    };
    let mut baselines = Vec::new();
    for one in &BASELINES {
        match (one.run)(&model(DEMANDS[0]), simulated) {
            Ok(_) => baselines.push((one, Vec::new())),
            Err(error) => {
                (options.remark)(&format!(
                    "net: nothing by {} to compare with: {error}",
                    one.what
                ));
            }
        }
    }
    // Throughput at the best load of each round; for peering portals, also the fraction of late
    // packets.
    let (mut peering, mut late) = (vec![], vec![]);
    for _ in 0..options.pick(2, 5) {
        let mut best = (0.0, 0.0);
        let mut best_of_baselines = vec![0.0_f64; baselines.len()];
        for sources in DEMANDS {
            let model = model(sources);
            for ((one, _), best) in baselines.iter().zip(&mut best_of_baselines) {
                *best = best.max(gbps(&(one.run)(&model, simulated)?));
            }
            let found = free::free(&model, simulated, &Free::default())?;
            if gbps(&found) > best.0 {
                best = (gbps(&found), found.late_fraction());
            }
        }
        peering.push(best.0);
        late.push(best.1);
        for ((_, all), best) in baselines.iter_mut().zip(best_of_baselines) {
            all.push(best);
        }
    }
    for (one, rounds) in baselines {
        let ratios = peering.iter().zip(&rounds);
        let ratios: Vec<f64> = ratios.map(|(peering, other)| peering / other).collect();
        figure(
            higher(Figure::new(BENCH, one.metric, "ratio", &ratios))
                .bar(2.0)
                .with("peering_gbps", crate::median(&peering))
                .with("baseline_gbps", crate::median(&rounds))
                .with("baseline", one.what)
                .with("peering_late_fraction", crate::median(&late))
                .with("most_demand_gbps", f64::from(DEMANDS[4]) * SOURCE_BPS as f64 / 1e9)
                .with("cut_ns", 100_000)
                .with("load", load())
                .with(
                    "counts",
                    "payload delivered between two engines per second of wall time, datagrams of 1,000 bytes in whole frames over a pair of interfaces",
                ),
        );
    }
    Ok(())
}

/// Numbers of UDP sources to try; the item below is the rate of each.
const DEMANDS: [u32; 5] = [4, 8, 16, 32, 64];
const SOURCE_BPS: u64 = 150_000_000;
