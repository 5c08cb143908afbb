//! iperf3 through the engine, with counters of kernels and engine.

use std::process::{Child, Command, Stdio};
use std::time::Duration as StdDuration;

use serde_json::Value;
use timeloom_emulation::EmulationReport;
use timeloom_fabric::Fabric;

use super::{Bed, broken};
use crate::error::BenchError;
use crate::net::machine;

/// Results of an iperf3 run, with the engine's counters.
pub(super) struct IperfResult {
    pub(super) gbps: f64,
    pub(super) lost: f64,
    pub(super) core: f64,
    /// Mean number of busy processors during the run, by the engine, by the guests' kernels and
    /// programs, and by all other load of the machine.
    pub(super) processors: f64,
    /// Number of datagrams that were dropped because the receiver's socket was full: the program
    /// had not read for as long as the socket buffer suffices.
    pub(super) socket_full: u64,
    pub(super) report: EmulationReport,
}

pub(super) fn measure(
    bed: &Bed,
    seconds: &str,
    arguments: &[&str],
) -> Result<IperfResult, BenchError> {
    let before = bed.emulation.report().ok_or_else(|| broken("it died"))?;
    let began = timeloom_sys::wall_now();
    let work = machine::Work::start();
    let said = iperf3(&bed.fabric, &bed.target, seconds, arguments)?;
    let wall = timeloom_sys::wall_now() - began;
    let report = bed.emulation.report().ok_or_else(|| broken("it died"))?;
    Ok(IperfResult {
        gbps: said.0,
        lost: said.1,
        core: (report.cpu - before.cpu).as_s_f64() / wall.as_s_f64(),
        processors: work.processors(),
        socket_full: socket_full(&bed.fabric).unwrap_or(0),
        report,
    })
}

/// Returns the number of datagrams that full sockets of `b` have dropped since the namespace was
/// created (`RcvbufErrors` in the table of snmp(5)).
pub(in crate::net) fn socket_full(fabric: &Fabric) -> Option<u64> {
    counter(fabric, "b", "Udp:", "RcvbufErrors")
}

/// Returns the number of IP packets that left `a` and did not arrive at `b`: lost by the interfaces
/// of either, by the engine, or in the network's queues.
pub(in crate::net) fn lost_between(fabric: &Fabric) -> Option<u64> {
    let sent = counter(fabric, "a", "Ip:", "OutRequests")?;
    Some(sent.saturating_sub(counter(fabric, "b", "Ip:", "InDelivers")?))
}

/// Reads a counter from the table of snmp(5) in a station's namespace.
pub(in crate::net) fn counter(
    fabric: &Fabric,
    station: &str,
    row: &str,
    name: &str,
) -> Option<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let table = fabric.station(station)?.run(read).ok()?.ok()?;
    let mut lines = table.lines().filter(|line| line.starts_with(row));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|other| other == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

/// Runs iperf3; returns the goodput at the receiver in Gbit/s, and the fraction lost.
pub(super) fn iperf3(
    fabric: &Fabric,
    target: &str,
    seconds: &str,
    arguments: &[&str],
) -> Result<(f64, f64), BenchError> {
    let inside = |name: &str| -> Result<Command, BenchError> {
        // The program gets a higher priority than other processes of the machine, which are not
        // measured.
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
    let _server = TerminatedChild(server.spawn().map_err(broken)?);
    // The server opens its port within milliseconds. A client that is too early fails, and is
    // started again.
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

/// Returns the goodput in Gbit/s and the fraction lost from iperf3's JSON output, or the error in
/// it.
pub(in crate::net) fn received(said: &Value) -> Result<(f64, f64), String> {
    let end = &said["end"];
    let lost = end["sum"]["lost_percent"].as_f64().unwrap_or(0.0) / 100.0;
    // For UDP, this is the amount of data sent.
    let all = &end["sum"]["bits_per_second"];
    let received = end["sum_received"]["bits_per_second"].as_f64();
    let received = received.or_else(|| Some(all.as_f64()? * (1.0 - lost)));
    match received {
        Some(bps) => Ok((bps / 1e9, lost)),
        None => Err(said["error"].to_string()),
    }
}

/// A child process that is ended when the benchmark ends.
pub(in crate::net) struct TerminatedChild(pub(in crate::net) Child);

impl Drop for TerminatedChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
