//! Figure 11 of the paper: real switches with an OpenFlow controller on both sides of a simulated
//! network, and iperf3 across the network, half TCP and half UDP.
//!
//! The experiment is as large as the paper's, but runs on one machine: two binary trees of Open
//! vSwitch with 64 hosts each, and two engines. The switches use most of the processors' time, so
//! throughput saturates early. The lateness of the engines shows whether the simulated part is the
//! cause.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration as StdDuration;

use serde_json::Value;
use timeloom_emulation::{
    Emulation, EmulationOptions, ManualClock, PacketOptions, PacketPort, Portals, Timing,
};
use timeloom_fabric::{Fabric, LinkSpec, NetworkSpec, OpenFlowSpec, StationSpec};
use timeloom_net::{LinkConfig, NetworkBuilder};
use timeloom_time::{Duration, Rate};

use super::plot::Table;
use super::realtime::{Cutting, TerminatedChild, halves, received};
use crate::error::BenchError;

/// Size of the experiment.
#[derive(Clone, Copy)]
struct Extent {
    /// Number of hosts of each tree, a power of two; a tree has one switch less than hosts.
    hosts: usize,
    /// Number of flows of each kind, for each step.
    steps: &'static [usize],
    /// Duration of each step in seconds.
    seconds: &'static str,
}

const WHOLE: Extent = Extent {
    hosts: 64,
    steps: &[1, 2, 4, 8, 16, 32],
    seconds: "10",
};
const A_LOOK: Extent = Extent {
    hosts: 16,
    steps: &[1, 2, 4, 8],
    seconds: "2",
};
/// Rate of each UDP flow, as in the paper.
const UDP_GBPS: f64 = 0.1;
const CONTROLLER: &str = include_str!("../../../../../examples/sdn/learning_switch.py");

fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Worker(format!("the software-defined network: {error}"))
}

/// Measures the figure, or a quick version of it. The inner error is the reason for which this
/// machine cannot measure it.
pub(super) fn figure(quick: bool) -> Result<Result<Table, String>, BenchError> {
    for (program, argument) in [
        ("iperf3", "--version"),
        ("python3", "--version"),
        ("ovs-vswitchd", "--version"),
    ] {
        let there = Command::new(program).arg(argument).output();
        if there.is_err() {
            return Ok(Err(format!("{program} is not installed")));
        }
    }
    let bed = Bed::build(if quick { A_LOOK } else { WHOLE })?;
    let mut rows = Vec::new();
    for &flows in bed.extent.steps {
        let before = bed.events()?;
        let (tcp, udp) = bed.carry(flows)?;
        let after = bed.events()?;
        let (events, late) = (after.0 - before.0, after.1 - before.1);
        let row = vec![
            UDP_GBPS * flows as f64,
            udp,
            tcp,
            late as f64 / events.max(1) as f64,
        ];
        rows.push((flows as f64, row));
    }
    Ok(Ok(Table {
        name: "figure-11-sdn",
        title: "Two trees of Open vSwitch joined by a simulated network",
        x: "TCP flows, and as many UDP flows of 100 Mbit/s",
        y: "Gbit/s",
        log: true,
        columns: vec![
            "UDP, demand",
            "UDP, delivered",
            "TCP, delivered",
            "events more than 1 ms late",
        ],
        beside: 1,
        rows,
    }))
}

/// Fields are dropped in this order: programs, emulations, namespaces.
struct Bed {
    _servers: Vec<TerminatedChild>,
    _controller: TerminatedChild,
    emulations: [Emulation; 2],
    fabric: Fabric,
    extent: Extent,
}

fn host(tree: usize, number: usize) -> String {
    format!("{}h{number}", ['a', 'b'][tree])
}

fn switch(tree: usize, number: usize) -> String {
    format!("{}s{number}", ['a', 'b'][tree])
}

fn address(tree: usize, number: usize) -> [u8; 4] {
    [10, 0, tree as u8 + 1, number as u8]
}

/// Interfaces that connect the trees with the simulated network.
const UPLINKS: [&str; 2] = ["aup", "bup"];

fn specification(hosts: usize) -> NetworkSpec {
    let mut spec = NetworkSpec::default();
    let station = |name: String, address: [u8; 4]| StationSpec {
        name,
        addresses: vec![(address.into(), 16)],
        mac: None,
    };
    let link = |a: String, b: String| LinkSpec {
        a,
        b,
        rate_bits_per_s: None,
    };
    for (tree, uplink) in UPLINKS.iter().enumerate() {
        // Switch 1 is the root; below switch n are the switches 2n and 2n + 1.
        for number in 1..hosts {
            spec.switches.push(switch(tree, number));
            if number > 1 {
                spec.links
                    .push(link(switch(tree, number / 2), switch(tree, number)));
            }
        }
        for number in 1..=hosts {
            spec.stations
                .push(station(host(tree, number), address(tree, number)));
            let leaf = hosts / 2 + (number - 1) / 2;
            spec.links
                .push(link(host(tree, number), switch(tree, leaf)));
        }
        // A station must have an address, but this one is not used.
        spec.stations
            .push(station((*uplink).to_owned(), [169, 254, 1, tree as u8 + 1]));
        spec.links.push(link(switch(tree, 1), (*uplink).to_owned()));
    }
    spec.openflow = OpenFlowSpec {
        switches: spec.switches.clone(),
        controlled: true,
    };
    spec
}

impl Bed {
    fn build(extent: Extent) -> Result<Self, BenchError> {
        let spec = specification(extent.hosts);
        let fabric = Fabric::build(&spec).map_err(broken)?;
        let mut network = NetworkBuilder::new(1);
        let core = network.switch("core");
        let wire = LinkConfig::new(10_000_000_000, Duration::from_ms(1));
        let plugs = UPLINKS.map(|name| {
            let plug = network.host(name);
            network.connect(plug, core, wire.clone());
            plug
        });
        let world = network.build().map_err(broken)?;
        let mut sides = [Portals::new(), Portals::new()];
        for ((plug, name), portals) in plugs.into_iter().zip(UPLINKS).zip(&mut sides) {
            let station = fabric.station(name).expect("just built");
            let port = PacketPort::open(station, "eth0", PacketOptions::default());
            let port = Box::new(port.map_err(broken)?);
            let joined = portals.join(plug, name, port, Default::default());
            joined.map_err(broken)?;
        }
        let clock = Arc::new(ManualClock::new(Rate::ONE));
        let start = |world, peers, portals| {
            let timing = Timing::Follow(Box::new(Arc::clone(&clock)));
            let serving = EmulationOptions {
                peers: Some(peers),
                // Without this, packets between the engines would be late.
                moderation: Duration::ZERO,
                ..EmulationOptions::default()
            };
            Emulation::start(world, portals, timing, serving).map_err(broken)
        };
        let is_far = |name: &str| name == UPLINKS[1];
        let [(near, near_peers), (far, far_peers)] = halves(&world, is_far, Cutting::Free)?;
        let [here, there] = sides;
        let far = start(far, far_peers, there)?;
        let near = start(near, near_peers, here)?;
        let controller = control(&fabric, spec.switches.len())?;
        let servers = (1..=extent.hosts).map(|number| {
            let mut server = Command::new("iperf3");
            let station = fabric.station(&host(1, number)).expect("just built");
            station.confine(&mut server).map_err(broken)?;
            server.arg("-s").stdin(Stdio::null());
            server.stdout(Stdio::null()).stderr(Stdio::null());
            Ok(TerminatedChild(server.spawn().map_err(broken)?))
        });
        let servers = servers.collect::<Result<Vec<_>, BenchError>>()?;
        // The servers open their ports within milliseconds.
        std::thread::sleep(StdDuration::from_millis(500));
        Ok(Self {
            _servers: servers,
            _controller: controller,
            emulations: [near, far],
            fabric,
            extent,
        })
    }

    /// Returns the number of events of both engines so far, and the number of late ones.
    fn events(&self) -> Result<(u64, u64), BenchError> {
        let mut sum = (0, 0);
        for emulation in &self.emulations {
            let report = emulation.report().ok_or_else(|| broken("it died"))?;
            sum.0 += report.lateness.events();
            sum.1 += report.lateness.late();
        }
        Ok(sum)
    }

    /// Runs so many TCP flows and as many UDP flows, each between its own pair of hosts. Returns
    /// the delivered Gbit/s of TCP and of UDP.
    fn carry(&self, flows: usize) -> Result<(f64, f64), BenchError> {
        let client = |number: usize, arguments: &[&str]| -> Result<Child, BenchError> {
            let mut client = Command::new("iperf3");
            let station = self.fabric.station(&host(0, number)).expect("just built");
            station.confine(&mut client).map_err(broken)?;
            let target = std::net::Ipv4Addr::from(address(1, number)).to_string();
            client.args([
                "-J",
                "-c",
                &target,
                "-t",
                self.extent.seconds,
                "--connect-timeout",
                "10000",
            ]);
            client.args(arguments).stdin(Stdio::null());
            client.stdout(Stdio::piped()).stderr(Stdio::null());
            client.spawn().map_err(broken)
        };
        let mut clients = Vec::new();
        for flow in 0..flows {
            clients.push(client(2 * flow + 1, &[])?);
            clients.push(client(2 * flow + 2, &["-u", "-b", "100M", "-l", "1400"])?);
        }
        let mut rates = [0.0; 2];
        for (place, client) in clients.into_iter().enumerate() {
            let output = client.wait_with_output().map_err(broken)?;
            let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            // A flow whose control connection failed counts as having delivered nothing.
            rates[place % 2] += received(&said).map_or(0.0, |(gbps, _)| gbps);
        }
        Ok((rates[0], rates[1]))
    }
}

/// Starts the example's controller in the namespace of the switches, and waits until all are
/// connected.
fn control(fabric: &Fabric, switches: usize) -> Result<TerminatedChild, BenchError> {
    let mut command = Command::new("python3");
    let confined = fabric.fabric_namespace().confine(&mut command);
    confined.map_err(broken)?;
    command.args(["-u", "-", "--switches", &switches.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().map_err(broken)?;
    let mut script = child.stdin.take().expect("piped");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let child = TerminatedChild(child);
    script.write_all(CONTROLLER.as_bytes()).map_err(broken)?;
    drop(script);
    let (say, said) = mpsc::channel();
    // The thread ends with the controller. The receiver may not exist any more.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = say.send(line);
        }
    });
    loop {
        let line = said.recv_timeout(StdDuration::from_secs(60));
        let line = line.map_err(|_| broken("its switches did not connect within a minute"))?;
        if line.starts_with("all ") {
            return Ok(child);
        }
    }
}
