//! Measurements with the same programs over alternatives: ns-3 in real time, and links of the
//! machine's kernel.

use std::os::fd::AsRawFd;

use timeloom_emulation::{Address, Inet, Port, Tap};
use timeloom_fabric::{Fabric, LinkSpec, NetworkSpec};

use super::{
    Bed, Between, DELAY, GBIT, TerminatedChild, UDP, broken, higher, iperf3, namespaces,
    socket_full, stations,
};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::net::ns3::Program;

/// Runs iperf3 over a veth pair whose rate the kernel's token bucket limits: the loss on this
/// machine without Timeloom. (The kernel's netem could also delay, but is not available
/// everywhere.) Returns the fraction lost, and the number of datagrams for which the receiver's
/// socket had no room.
pub(super) fn kernel_udp(seconds: &str) -> Result<(f64, u64), BenchError> {
    let spec = NetworkSpec {
        stations: stations(29),
        links: vec![LinkSpec {
            a: "a".into(),
            b: "b".into(),
            rate_bits_per_s: Some(10 * GBIT),
        }],
        ..NetworkSpec::default()
    };
    let fabric = Fabric::build(&spec).map_err(broken)?;
    let (_, lost) = iperf3(&fabric, "10.0.0.6", seconds, UDP)?;
    Ok((lost, socket_full(&fabric).unwrap_or(0)))
}

/// Compares the engine with ns-3, which handles every frame separately. Rounds alternate between
/// both.
pub(super) fn against_ns3(
    options: &Options,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let ns3 = match Program::compile("realtime", SOURCE, &LIBRARIES)? {
        Ok(program) => program,
        Err(why) => {
            (options.remark)(&format!("ns-3 in real time is left out: {why}"));
            return Ok(());
        }
    };
    let (rounds, seconds) = (options.pick(1, 5), options.pick("2", "4"));
    let (mut tcp, mut udp) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let (mut tcp_ratio, mut udp_ratio) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let between = Between {
            hosts: 0,
            ..Between::new(10 * GBIT, DELAY)
        };
        for (arguments, rates, ratios) in [
            (&["-C", "cubic"][..], &mut tcp, &mut tcp_ratio),
            (
                &["-u", "-b", "2G", "-l", "1400"][..],
                &mut udp,
                &mut udp_ratio,
            ),
        ] {
            let bed = Bed::build(between)?;
            let ours = iperf3(&bed.fabric, &bed.target, seconds, arguments)?.0;
            drop(bed);
            let theirs = with_ns3(&ns3, seconds, arguments)?;
            rates[0].push(ours);
            rates[1].push(theirs);
            ratios.push(ours / theirs);
        }
    }
    for (name, rates, ratios, bar) in [
        ("realtime_tcp_over_ns3", &tcp, &tcp_ratio, 5.0),
        ("realtime_udp_over_ns3", &udp, &udp_ratio, 1.0),
    ] {
        figure(
            higher(name.to_owned(), "ratio", ratios, bar)
                .with("ours_gbps", crate::median(&rates[0]))
                .with("ns3_gbps", crate::median(&rates[1]))
                .with("link", "10 Gbit/s, 1 ms; UDP: 2 Gbit/s offered")
                .with("ns3", "FdNetDevice, RealtimeSimulatorImpl"),
        );
    }
    Ok(())
}

const SOURCE: &str = include_str!("../../../peers/ns3_realtime.cc");
const LIBRARIES: [&str; 5] = [
    "core",
    "network",
    "internet",
    "point-to-point",
    "fd-net-device",
];

fn with_ns3(ns3: &Program, seconds: &str, arguments: &[&str]) -> Result<f64, BenchError> {
    let fabric = namespaces()?;
    let tap = |name: &str, address: [u8; 4], gateway: [u8; 4]| {
        let what = Address {
            mac: [2, 0, 0, 0, 1, address[3]],
            v4: Some(Inet {
                address: address.into(),
                prefix: 30,
                gateway: Some(gateway.into()),
            }),
            v6: None,
        };
        let station = fabric.station(name).expect("just built");
        Tap::create_plain(station, "eth0", &what).map_err(broken)
    };
    let left = tap("a", [10, 0, 0, 1], [10, 0, 0, 2])?;
    let right = tap("b", [10, 0, 0, 6], [10, 0, 0, 5])?;
    let copy = |port: &dyn Port| {
        let descriptor = port.descriptor().try_clone_to_owned();
        descriptor.map_err(BenchError::system("copying a descriptor"))
    };
    let descriptors = [copy(&left)?, copy(&right)?];
    let arguments_of_ns3 = [
        format!("--left={}", descriptors[0].as_raw_fd()),
        format!("--right={}", descriptors[1].as_raw_fd()),
        "--gbps=10".to_owned(),
        "--delay=1".to_owned(),
        "--seconds=60".to_owned(),
    ];
    let child = ns3.start_with(&arguments_of_ns3, descriptors)?;
    let child = TerminatedChild(child);
    let outcome = iperf3(&fabric, "10.0.0.6", seconds, arguments);
    drop(child);
    Ok(outcome?.0)
}
