//! The kernel's TCP over the links of the model: iperf3 between namespaces.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use serde_json::Value;
use timeloom_emulation::{Address, Emulation, EmulationOptions, ManualClock, Portals, Tap, Timing};
use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_time::Rate;

use super::{Cell, Effort, SEGMENT_BYTES, Sending, kernels_name, network};
use crate::error::BenchError;
use crate::net::model::refused;

/// Results of iperf3 for one row of cells.
pub(super) struct KernelResult {
    /// Result of each flow, in the order of the cells.
    pub(super) flows: Vec<Flow>,
    /// Fraction of the engine's events that were more than 1 ms late.
    pub(super) late: f64,
}

/// Result of one flow.
pub(super) struct Flow {
    /// Payload throughput at the receiver, in Mbit/s.
    pub(super) mbps: f64,
    /// Retransmitted segments per thousand sent.
    pub(super) again: f64,
    /// Mean of the sender's smoothed round-trip time.
    pub(super) round_trip_ms: f64,
}

/// Runs all cells of a row at the same time. Each has its own pair of namespaces, so that no kernel
/// reuses cached metrics of another connection.
pub(super) fn run(
    cells: &[Cell],
    seed: u64,
    effort: Effort,
    sending: Sending,
) -> Result<KernelResult, BenchError> {
    let bed = Bed::build(cells, seed)?;
    if sending == Sending::AtOnce {
        bed.send_at_once(cells.len())?;
    }
    let servers = (0..cells.len()).map(|index| {
        let mut server = bed.command(&format!("b{index}"))?;
        server.args(["-s", "-1"]).stdout(Stdio::null());
        Running::start(&mut server)
    });
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    // All servers listen after some tens of milliseconds; a client that is refused would fail the
    // run.
    std::thread::sleep(StdDuration::from_secs(1));
    let clients = cells.iter().enumerate().map(|(index, cell)| {
        let mut client = bed.command(&format!("a{index}"))?;
        client
            .args(["-J", "-c", &bed.targets[index]])
            .args(["-C", kernels_name(cell.control)])
            .args(["-O", &effort.omit_s.to_string()])
            .args(["-t", &effort.seconds.to_string()])
            .stdout(Stdio::piped());
        Running::start(&mut client)
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let mut flows = Vec::new();
    for client in clients {
        let said: Value = serde_json::from_slice(&client.output()?).unwrap_or_default();
        let end = &said["end"];
        let received = end["sum_received"]["bits_per_second"].as_f64();
        let sent = end["sum_sent"]["bytes"].as_f64();
        let again = end["sum_sent"]["retransmits"].as_f64();
        let (Some(received), Some(sent), Some(again)) = (received, sent, again) else {
            return Err(broken(format!("iperf3: {}", said["error"])));
        };
        let round_trip_us = end["streams"][0]["sender"]["mean_rtt"].as_f64();
        flows.push(Flow {
            mbps: received / 1e6,
            again: 1e3 * again / (sent / SEGMENT_BYTES).max(1.0),
            round_trip_ms: round_trip_us.unwrap_or(f64::NAN) / 1e3,
        });
    }
    drop(servers);
    let report = bed.emulation.stop().ok_or_else(|| broken("it died"))?;
    if report.dropped_by_machine() > 0 {
        return Err(broken("this machine dropped frames: it is too slow"));
    }
    Ok(KernelResult {
        flows,
        late: report.lateness.late_fraction(),
    })
}

/// Fields are dropped in this order: the emulation ends before the namespaces.
struct Bed {
    emulation: Emulation,
    fabric: Fabric,
    targets: Vec<String>,
}

impl Bed {
    fn build(cells: &[Cell], seed: u64) -> Result<Self, BenchError> {
        let (network, ends) = network(cells, seed);
        let world = network.build().map_err(refused)?;
        let address = |node| Address::of(&world, node).expect("it has a link");
        let own = |node| world.port_of(node).map(|port| world.address(port));
        let own = |node| own(node).expect("it has a link");
        let stations: Vec<(String, _, _)> = ends
            .iter()
            .enumerate()
            .flat_map(|(index, (from, to))| {
                [(format!("a{index}"), *from), (format!("b{index}"), *to)]
            })
            .map(|(name, node)| (name, node, address(node)))
            .collect();
        let spec = NetworkSpec {
            stations: stations
                .iter()
                .map(|(name, node, address)| StationSpec {
                    name: name.clone(),
                    addresses: vec![(own(*node).into(), address.v4.map_or(32, |own| own.prefix))],
                    mac: None,
                })
                .collect(),
            unplugged: stations.iter().map(|(name, ..)| name.clone()).collect(),
            ..NetworkSpec::default()
        };
        let fabric = Fabric::build(&spec).map_err(broken)?;
        let targets = ends.iter().map(|(_, to)| own(*to).to_string());
        let targets = targets.collect();
        let mut portals = Portals::new();
        for (name, node, address) in &stations {
            let station = fabric.station(name).expect("just built");
            let tap = Tap::create(station, "eth0", address).map_err(broken)?;
            let filters = Default::default();
            portals
                .join(*node, name, Box::new(tap), filters)
                .map_err(broken)?;
        }
        let timing = Timing::Follow(Box::new(Arc::new(ManualClock::new(Rate::ONE))));
        let emulation = Emulation::start(world, portals, timing, EmulationOptions::default())
            .map_err(broken)?;
        Ok(Self {
            emulation,
            fabric,
            targets,
        })
    }

    /// Configures the kernels of the senders so that they do not wait until larger segments are
    /// possible.
    fn send_at_once(&self, count: usize) -> Result<(), BenchError> {
        for index in 0..count {
            let station = self.fabric.station(&format!("a{index}"));
            let station = station.expect("just built");
            let written = station.run(|| {
                // The fraction 1/255 of the window is always available. The kernel stores the
                // divisor in a byte.
                std::fs::write("/proc/sys/net/ipv4/tcp_tso_win_divisor", "255")
            });
            written.map_err(broken)?.map_err(broken)?;
        }
        Ok(())
    }

    /// Returns an iperf3 command for a namespace. It has a higher priority than other processes of
    /// the machine, which are not measured.
    fn command(&self, station: &str) -> Result<Command, BenchError> {
        let mut command = Command::new("nice");
        command.args(["-n", "-10", "iperf3"]).stdin(Stdio::null());
        command.stderr(Stdio::null());
        let station = self.fabric.station(station).expect("just built");
        station.confine(&mut command).map_err(broken)?;
        Ok(command)
    }
}

/// A child process that is ended when the benchmark ends.
struct Running(Option<Child>);

impl Running {
    fn start(command: &mut Command) -> Result<Self, BenchError> {
        command
            .spawn()
            .map(|child| Self(Some(child)))
            .map_err(broken)
    }

    fn output(mut self) -> Result<Vec<u8>, BenchError> {
        let child = self.0.take().expect("it is taken once, here");
        let output = child.wait_with_output().map_err(broken)?;
        Ok(output.stdout)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Worker(error.to_string())
}
