//! Real programs through the engine: iperf3 and pings between two namespaces,
//! with a thousand simulated hosts beside them, against ns-3 in real time.
//!
//! Every figure says how late the engine was meanwhile. On a machine whose
//! cores others use too, lateness is what suffers first.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use serde_json::Value;
use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_net::{
    LinkConfig, NetworkBuilder, Node, Pattern, QueueConfig, Size, TrafficConfig, World, topology,
};
use timeloom_portal::{
    Address, Commanded, Emulation, Options as Serving, Portals, Report, Tap, Timing,
};
use timeloom_time::{Duration, Rate};

use super::ping::ping;
use super::{BENCH, machine};
use crate::Options;
use crate::error::BenchError;
use crate::figure::{Better, Figure};

mod against;

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

pub(super) const GBIT: u64 = 1_000_000_000;
pub(super) const DELAY: Duration = Duration::from_ms(1);

/// A link between the namespaces `a` and `b`.
#[derive(Clone, Copy)]
pub(super) struct Between {
    rate_bps: u64,
    delay: Duration,
    queue: u32,
    /// Simulated hosts beside it, half of them sending to the others.
    hosts: u32,
}

impl Between {
    pub(super) const fn new(rate_bps: u64, delay: Duration) -> Self {
        Self {
            rate_bps,
            delay,
            // Two bandwidth-delay products at 1 Gbit/s and 1 ms are 330
            // packets; ten times that at 10 Gbit/s.
            queue: if rate_bps > GBIT { 8_000 } else { 1_000 },
            hosts: 1_000,
        }
    }
}

/// The emulation ends before the namespaces.
pub(super) struct Bed {
    pub(super) emulation: Emulation,
    pub(super) fabric: Fabric,
    pub(super) target: String,
}

pub(super) fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Worker(error.to_string())
}

/// In networks of four addresses, or in one of eight.
fn stations(prefix_len: u8) -> Vec<StationSpec> {
    let station = |(name, last): (&str, u8)| StationSpec {
        name: name.into(),
        address: [10, 0, 0, last].into(),
        prefix_len,
        mac: None,
    };
    [("a", 1), ("b", 6)].into_iter().map(station).collect()
}

fn namespaces() -> Result<Fabric, BenchError> {
    let spec = NetworkSpec {
        stations: stations(30),
        unplugged: vec!["a".into(), "b".into()],
        ..NetworkSpec::default()
    };
    Fabric::build(&spec).map_err(broken)
}

impl Bed {
    /// In real time.
    fn build(between: Between) -> Result<Self, BenchError> {
        Self::build_served(between, Serving::default())
    }

    fn build_served(between: Between, serving: Serving) -> Result<Self, BenchError> {
        let real = || {
            let clock = Arc::new(Commanded::new(Rate::ONE));
            Timing::Follow(Box::new(clock))
        };
        Self::build_with(between, real, serving)
    }

    /// By the clock that `timing` gives once all is there: a network whose clock
    /// ran while it was built would begin behind.
    pub(super) fn build_at(
        between: Between,
        timing: impl FnOnce() -> Timing,
    ) -> Result<Self, BenchError> {
        Self::build_with(between, timing, Serving::default())
    }

    fn build_with(
        between: Between,
        timing: impl FnOnce() -> Timing,
        serving: Serving,
    ) -> Result<Self, BenchError> {
        let fabric = namespaces()?;
        let mut network = NetworkBuilder::new(1);
        let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
        // A host gives its frames to the first link as to a card.
        network.connect(a, router, LinkConfig::new(1_000 * GBIT, Duration::ZERO));
        let queue = QueueConfig::DropTail {
            packets: between.queue,
        };
        let link = LinkConfig::new(between.rate_bps, between.delay).with_queue(queue);
        network.connect(router, b, link);
        let beside = beside(&mut network, between.hosts);
        let mut world = network.build().map_err(broken)?;
        for (from, to) in beside {
            let pattern = Pattern::Constant { rate_bps: 40_000 };
            let traffic = TrafficConfig::udp(pattern, Size::Fixed(500));
            world.add_traffic(from, to, traffic).map_err(broken)?;
        }
        let mut portals = Portals::new();
        for (node, name) in [(a, "a"), (b, "b")] {
            let station = fabric.station(name).expect("just built");
            let tap = Tap::create(station, "eth0", &address(&world, node)).map_err(broken)?;
            let filters = Default::default();
            portals
                .join(node, name, Box::new(tap), filters)
                .map_err(broken)?;
        }
        let target = address(&world, b).address.to_string();
        let emulation = Emulation::start(world, portals, timing(), serving).map_err(broken)?;
        Ok(Self {
            emulation,
            fabric,
            target,
        })
    }
}

fn beside(network: &mut NetworkBuilder, hosts: u32) -> Vec<(Node, Node)> {
    if hosts == 0 {
        return Vec::new();
    }
    let access = LinkConfig::new(GBIT, DELAY);
    let trunk = LinkConfig::new(10 * GBIT, DELAY);
    let both = topology::dumbbell(network, "beside-", hosts / 2, &access, &trunk);
    both.left.into_iter().zip(both.right).collect()
}

fn address(world: &World, node: Node) -> Address {
    let port = world.port_of(node).expect("it has a link");
    Address {
        address: world.address(port),
        prefix: world.prefix(port),
        mac: world.mac(port),
        gateway: world.gateway(node),
    }
}

/// What one iperf3 said, and what the engine did meanwhile.
struct Measured {
    gbps: f64,
    lost: f64,
    core: f64,
    /// Processors at work, in all: the engine, the guests' kernels and programs, and
    /// whoever else the machine has.
    processors: f64,
    /// Datagrams for which the receiving program's socket had no room: it had
    /// not read for as long as its buffer lasts.
    socket_full: u64,
    report: Report,
}

fn measure(bed: &Bed, seconds: &str, arguments: &[&str]) -> Result<Measured, BenchError> {
    let before = bed.emulation.report().ok_or_else(|| broken("it died"))?;
    let began = timeloom_sys::wall_now();
    let work = machine::Work::start();
    let said = iperf3(&bed.fabric, &bed.target, seconds, arguments)?;
    let wall = timeloom_sys::wall_now() - began;
    let report = bed.emulation.report().ok_or_else(|| broken("it died"))?;
    Ok(Measured {
        gbps: said.0,
        lost: said.1,
        core: (report.cpu - before.cpu).as_s_f64() / wall.as_s_f64(),
        processors: work.processors(),
        socket_full: socket_full(&bed.fabric).unwrap_or(0),
        report,
    })
}

/// Datagrams that the sockets of `b` had no room for (`RcvbufErrors` of snmp(5)'s
/// table), since it was made.
pub(super) fn socket_full(fabric: &Fabric) -> Option<u64> {
    counter(fabric, "b", "Udp:", "RcvbufErrors")
}

/// IP packets that left `a` and never came to `b`: the devices of both, the
/// engine and the network's queues had them in between.
pub(super) fn lost_between(fabric: &Fabric) -> Option<u64> {
    let sent = counter(fabric, "a", "Ip:", "OutRequests")?;
    Some(sent.saturating_sub(counter(fabric, "b", "Ip:", "InDelivers")?))
}

/// A counter of snmp(5)'s table in a station's namespace.
pub(super) fn counter(fabric: &Fabric, station: &str, row: &str, name: &str) -> Option<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let table = fabric.station(station)?.run(read).ok()?.ok()?;
    let mut lines = table.lines().filter(|line| line.starts_with(row));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|other| other == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

/// Goodput in Gbit/s at the receiver, and the fraction that was lost.
fn iperf3(
    fabric: &Fabric,
    target: &str,
    seconds: &str,
    arguments: &[&str],
) -> Result<(f64, f64), BenchError> {
    let inside = |name: &str| -> Result<Command, BenchError> {
        // Before other users of the machine, whom the figure is not about.
        let mut command = Command::new("nice");
        command.args(["-n", "-10", "iperf3"]);
        let station = fabric.station(name).expect("just built");
        station.confine(&mut command).map_err(broken)?;
        Ok(command)
    };
    let mut server = inside("b")?;
    server
        .args(["-s", "-1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _server = Ended(server.spawn().map_err(broken)?);
    // Its port opens within milliseconds; a client that is too early fails, and
    // tries again.
    for _ in 0..50 {
        std::thread::sleep(StdDuration::from_millis(100));
        let mut client = inside("a")?;
        client
            .args(["-J", "-c", target, "-t", seconds])
            .args(arguments);
        let output = client.output().map_err(broken)?;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match received(&said) {
            Ok(found) => return Ok(found),
            Err(error) if error.contains("onnect") => continue,
            Err(error) => return Err(broken(format!("iperf3: {error}"))),
        }
    }
    Err(broken("iperf3 found no server"))
}

/// The same from iperf3's JSON, or its error.
pub(super) fn received(said: &Value) -> Result<(f64, f64), String> {
    let end = &said["end"];
    let lost = end["sum"]["lost_percent"].as_f64().unwrap_or(0.0) / 100.0;
    // Of UDP, what was sent.
    let all = &end["sum"]["bits_per_second"];
    let received = end["sum_received"]["bits_per_second"].as_f64();
    let received = received.or_else(|| Some(all.as_f64()? * (1.0 - lost)));
    match received {
        Some(bps) => Ok((bps / 1e9, lost)),
        None => Err(said["error"].to_string()),
    }
}

/// A child that does not outlive its benchmark.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn context(figure: Figure, all: &[Measured]) -> Figure {
    let of = |value: fn(&Measured) -> f64| {
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
    let mut all: Vec<Vec<Measured>> = (0..links.len() * controls.len())
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

/// Linux lets a socket's buffers grow to 4 MiB for sending and 6 MiB for receiving, of which
/// data are half: too little for 10 Gbit/s and 2 ms when anything waits anywhere.
const LARGE_BUFFERS: u32 = 16 << 20;

/// Lets the kernels of both namespaces use as much, as one would at two machines.
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

/// As it was before frames were joined and turns spaced by load: the control.
fn frame_by_frame() -> Serving {
    Serving {
        join: false,
        moderation: Duration::from_us(50),
        ..Serving::default()
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

/// Offered on a link of 10 Gbit/s, so that the link itself loses nothing.
const UDP: &[&str] = &["-u", "-b", "1G", "-l", "1400"];
/// How much iperf3 sends at once, in time: its default, of which one burst fills
/// the socket that Linux gives its receiver, and a tenth of it.
const UDP_BURSTS: &[(&str, &str); 2] = &[
    ("realtime_udp_1g_loss", "1000"),
    ("realtime_udp_1g_loss_small_bursts", "100"),
];

/// Rounds of pings, each with its mean and 99th percentile.
fn rtt(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let (rounds, count) = (options.pick(1, 5), options.pick(200, 500));
    // There and back; 98 bytes and Ethernet's 24 at 1 Gbit/s each way.
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
