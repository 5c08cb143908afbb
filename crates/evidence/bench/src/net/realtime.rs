//! Real programs through the engine: iperf3 and pings between two namespaces, with and without a
//! thousand simulated hosts, compared with ns-3 in real time.
//!
//! Every figure also states the engine's lateness during the measurement. On a machine with other
//! load, lateness becomes worse first.

use std::process::Command;
use std::time::Duration as StdDuration;

use timeloom_emulation::EmulationOptions;
use timeloom_fabric::Fabric;
use timeloom_time::Duration;

use super::BENCH;
use super::ping::ping;
use crate::Options;
use crate::error::BenchError;
use crate::figure::{Better, Figure};

mod against;
mod bed;
mod iperf;

pub(super) use bed::{Bed, Between, Cutting, DELAY, GBIT, broken, halves};
use bed::{namespaces, stations};
use iperf::{IperfResult, iperf3, measure};
pub(super) use iperf::{TerminatedChild, counter, lost_between, received, socket_full};

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let there = Command::new("iperf3").arg("--version").output();
    if there.is_err() {
        (options.remark)("iperf3 is not installed; real programs through the engine are left out");
        return Ok(());
    }
    tcp(options, figure)?;
    udp(options, figure)?;
    rtt(options, figure)?;
    against::against_ns3(options, figure)
}

fn context(figure: Figure, all: &[IperfResult]) -> Figure {
    let of = |value: fn(&IperfResult) -> f64| {
        let values: Vec<f64> = all.iter().map(value).collect();
        crate::median(&values)
    };
    figure
        .with("core", of(|m| m.core))
        .with("processors_in_all", of(|m| m.processors))
        .with(
            "late_fraction_1ms",
            of(|m| m.report.lateness.late_fraction()),
        )
        .with(
            "late_p99_ns",
            of(|m| m.report.lateness.quantile(0.99).as_ns() as f64),
        )
        .with(
            "late_worst_ns",
            of(|m| m.report.lateness.worst().as_ns() as f64),
        )
        .with(
            "lost_on_the_way",
            of(|m| {
                let ports = m.report.ports.iter();
                (m.report.dropped_by_machine() + ports.map(|port| port.refused).sum::<u64>()) as f64
            }),
        )
        .with(
            "dropped_by_machine",
            of(|m| m.report.dropped_by_machine() as f64),
        )
        .with("simulated_hosts_beside", 1_000)
}

pub(super) fn higher(metric: String, unit: &'static str, samples: &[f64], bar: f64) -> Figure {
    let mut figure = Figure::new(BENCH, metric, unit, samples).bar(bar);
    figure.better = Better::Higher;
    figure
}

fn tcp(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let (rounds, seconds) = (options.pick(1, 5), options.pick("2", "4"));
    let links = [
        ("1g", Between::new(GBIT, DELAY), 0.93),
        ("10g", Between::new(10 * GBIT, DELAY), 9.0),
        (
            "unlimited",
            Between::new(1_000 * GBIT, Duration::ZERO),
            15.0,
        ),
    ];
    let controls = ["cubic", "reno"];
    let mut all: Vec<Vec<IperfResult>> = (0..links.len() * controls.len())
        .map(|_| Vec::new())
        .collect();
    let (mut singly, mut large) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (link, (_, between, _)) in links.iter().enumerate() {
            for (control, name) in controls.iter().enumerate() {
                let bed = Bed::build(*between)?;
                let measured = measure(&bed, seconds, &["-C", name])?;
                all[link * controls.len() + control].push(measured);
            }
        }
        let bed = Bed::build_served(links[0].1, frame_by_frame())?;
        singly.push(measure(&bed, seconds, &["-C", controls[0]])?);
        let bed = Bed::build(links[1].1)?;
        large_buffers(&bed.fabric)?;
        large.push(measure(&bed, seconds, &["-C", controls[0]])?);
    }
    let rates: Vec<f64> = large.iter().map(|m| m.gbps).collect();
    let name = "realtime_tcp_10g_cubic_large_buffers_gbps".to_owned();
    let one =
        higher(name, "Gbit/s", &rates, links[1].2).with("buffers_bytes_at_most", LARGE_BUFFERS);
    figure(context(one, &large));
    let cores: Vec<f64> = singly.iter().map(|m| m.core).collect();
    let name = "realtime_tcp_1g_cubic_core_frame_by_frame";
    figure(context(Figure::new(BENCH, name, "ratio", &cores), &singly));
    for (place, measured) in all.iter().enumerate() {
        let (link, _, bar) = links[place / controls.len()];
        let control = controls[place % controls.len()];
        let rates: Vec<f64> = measured.iter().map(|m| m.gbps).collect();
        let name = format!("realtime_tcp_{link}_{control}_gbps");
        figure(context(higher(name, "Gbit/s", &rates, bar), measured));
        if link == "1g" {
            let cores: Vec<f64> = measured.iter().map(|m| m.core).collect();
            let name = format!("realtime_tcp_{link}_{control}_core");
            let one = Figure::new(BENCH, name, "ratio", &cores).bar(0.25);
            figure(context(one, measured));
        }
    }
    Ok(())
}

/// Size of socket buffers in bytes. Linux limits them to 4 MiB for sending and 6 MiB for receiving,
/// of which half is data. That is too little for 10 Gbit/s and 2 ms with queueing.
const LARGE_BUFFERS: u32 = 16 << 20;

/// Raises the limits of socket buffers in both namespaces, as an administrator would on two
/// machines.
fn large_buffers(fabric: &Fabric) -> Result<(), BenchError> {
    let set = |name: &str, usual: u32| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        std::fs::write(path, format!("4096 {usual} {LARGE_BUFFERS}"))
    };
    for name in ["a", "b"] {
        let station = fabric.station(name).expect("just built");
        let done = station.run(|| set("tcp_wmem", 16_384).and_then(|()| set("tcp_rmem", 131_072)));
        done.map_err(broken)?
            .map_err(BenchError::system("setting TCP's buffers"))?;
    }
    Ok(())
}

/// Returns settings without batches of frames and without load-dependent intervals, for comparison.
fn frame_by_frame() -> EmulationOptions {
    EmulationOptions {
        join: false,
        moderation: Duration::from_us(50),
        ..EmulationOptions::default()
    }
}

fn udp(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let (rounds, seconds) = (options.pick(1, 5), options.pick("2", "4"));
    let mut all = [Vec::new(), Vec::new()];
    let mut kernel = Vec::new();
    for _ in 0..rounds {
        kernel.push(against::kernel_udp(seconds)?);
        for (all, (_, bursts_us)) in all.iter_mut().zip(UDP_BURSTS) {
            let bed = Bed::build(Between::new(10 * GBIT, DELAY))?;
            let arguments = [&["--pacing-timer", bursts_us], UDP].concat();
            all.push(measure(&bed, seconds, &arguments)?);
        }
    }
    let lost: Vec<f64> = kernel.iter().map(|(lost, _)| *lost).collect();
    let full: Vec<f64> = kernel.iter().map(|(_, full)| *full as f64).collect();
    figure(
        Figure::new(BENCH, "kernel_udp_1g_loss", "ratio", &lost)
            .with("receiver_had_no_room", crate::median(&full))
            .with(
                "what",
                "the same over a veth pair and a token bucket of the kernel's, without an engine",
            ),
    );
    for (all, (name, bursts_us)) in all.iter().zip(UDP_BURSTS) {
        let lost: Vec<f64> = all.iter().map(|m| m.lost).collect();
        let one = Figure::new(BENCH, *name, "ratio", &lost).bar(0.001);
        let rates: Vec<f64> = all.iter().map(|m| m.gbps).collect();
        let full: Vec<f64> = all.iter().map(|m| m.socket_full as f64).collect();
        figure(
            context(one, all)
                .with("bursts_us", *bursts_us)
                .with("delivered_gbps", crate::median(&rates))
                .with("receiver_had_no_room", crate::median(&full)),
        );
    }
    Ok(())
}

/// Arguments for UDP: an offered load that a 10 Gbit/s link carries without loss.
const UDP: &[&str] = &["-u", "-b", "1G", "-l", "1400"];
/// Lengths of iperf3's bursts, in time. By default, one burst fills the socket buffer of the
/// receiver; the second value is a tenth of the default.
const UDP_BURSTS: &[(&str, &str); 2] = &[
    ("realtime_udp_1g_loss", "1000"),
    ("realtime_udp_1g_loss_small_bursts", "100"),
];

/// Measures rounds of pings; each round has a mean and a 99th percentile.
fn rtt(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let (rounds, count) = (options.pick(1, 5), options.pick(200, 500));
    // Delay of both directions, and the transmission of 98 bytes plus Ethernet's 24 at 1 Gbit/s for
    // each.
    let configured = 2 * DELAY.as_ns() + 2 * (84 + 38) * 8;
    let (mut means, mut p99s, mut least, mut cores) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        let bed = Bed::build(Between::new(GBIT, DELAY))?;
        let target = bed.target.parse().map_err(broken)?;
        let station = bed.fabric.station("a").expect("just built");
        let gap = StdDuration::from_millis(5);
        let began = timeloom_sys::wall_now();
        let pings = station.run(|| ping(target, count, gap)).map_err(broken)?;
        let pings = pings.map_err(BenchError::system("pinging"))?;
        let wall = timeloom_sys::wall_now() - began;
        let errors: Vec<f64> = pings.iter().map(|ns| (ns - configured) as f64).collect();
        let report = bed.emulation.stop().ok_or_else(|| broken("it died"))?;
        means.push(errors.iter().sum::<f64>() / errors.len() as f64);
        p99s.push(crate::percentile(&errors, 99.0));
        least.push(crate::percentile(&errors, 0.0));
        cores.push(report.cpu.as_s_f64() / wall.as_s_f64());
    }
    figure(
        Figure::new(BENCH, "rtt_error_ns", "ns", &means)
            .bar(80_000.0)
            .with("what", "means of rounds of pings")
            .with("pings", count - 1)
            .with("least_ns", crate::median(&least))
            .with("core", crate::median(&cores))
            .with("simulated_hosts_beside", 1_000),
    );
    figure(Figure::new(BENCH, "rtt_error_p99_ns", "ns", &p99s).bar(200_000.0));
    Ok(())
}
