//! Test of a real ptp4l behind simulated switches. Behind plain switches, the queueing delays of
//! Syncs change its offset; transparent clocks remove this effect.
//!
//! The simulated grandmaster announces the machine's CLOCK_REALTIME, with which ptp4l's kernel
//! takes timestamps. Because of `free_running`, ptp4l does not steer that clock, so the true offset
//! is 0 except for the lateness of the emulation. The test compares two networks and does not use
//! absolute times. The queue delays a Sync for tens of milliseconds.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant as StdInstant, SystemTime};

use timeloom_emulation::{Emulation, EmulationOptions, ManualClock, Portals, Timing};
use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_net::{LinkConfig, NetworkBuilder, Node, PacketSize, Pattern, TrafficConfig};
use timeloom_ptp::{DelayMechanism, Profile};
use timeloom_ptp_net::{NodeClockOptions, NodeOptions, PtpNode, Role, Transport};
use timeloom_time::{Duration, Instant, Rate};

use crate::world::tap;

/// Process of a ptp4l slave. Dropping the value kills the process.
struct Ptp4l(Child);

impl Drop for Ptp4l {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the sorted offsets in nanoseconds that a slave behind two switches has measured, and the
/// number of Syncs that the switches forwarded.
fn offsets(profile: Profile, transport: Transport, transparent: bool) -> (Vec<f64>, u64) {
    let address = |last| IpAddr::from([10, 0, 0, last]);
    let fabric = Fabric::build(&NetworkSpec {
        stations: vec![StationSpec {
            name: "slave".into(),
            addresses: vec![(address(1), 24)],
            mac: None,
        }],
        unplugged: vec!["slave".into()],
        ..NetworkSpec::default()
    })
    .expect("run this test as root");
    let mut network = NetworkBuilder::new(11);
    let [slave, gm, left, right] = ["slave", "gm", "left", "right"].map(|n| network.host(n));
    let switches = ["s1", "s2"].map(|name| network.switch(name));
    let fast = LinkConfig::new(1_000_000_000, Duration::from_us(1));
    let (to_slave, _) = network.connect(slave, switches[0], fast.clone());
    network.set_address(to_slave, address(1), 24);
    network.connect(
        switches[0],
        switches[1],
        LinkConfig::new(1_000_000, Duration::from_us(10)),
    );
    network.connect(gm, switches[1], fast.clone());
    network.connect(left, switches[0], fast.clone());
    network.connect(right, switches[1], fast);
    let mut world = network.build().unwrap();
    // The load flows only towards the slave, so that the delay is asymmetric as well.
    let mean = Duration::from_us(10_500);
    let load = TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(1_000));
    world.add_traffic(right, left, load).unwrap();
    let clock = Arc::new(ManualClock::new(Rate::ONE));
    let civil = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let epoch = Instant::from_ns(civil.as_nanos() as i64) - (clock.now() - Instant::ZERO);
    let mut attach = |node: Node, role, ppb| {
        let mut options = NodeOptions::new(role, profile);
        options.transport = transport;
        options.clock = NodeClockOptions {
            epoch,
            seed: u64::from(node.0),
            ..NodeClockOptions::default()
        };
        options.clock.oscillator.frequency = timeloom_clock::RateError::from_ppb(ppb);
        assert!(PtpNode::attach(&mut world, node, &options));
    };
    attach(gm, Role::Grandmaster, 0);
    if transparent {
        attach(switches[0], Role::Transparent, 30_000);
        attach(switches[1], Role::Transparent, -45_000);
    }
    let station = fabric.station("slave").unwrap();
    let mut portals = Portals::new();
    let port = Box::new(tap(&world, slave, station));
    portals
        .join(slave, "slave", port, Default::default())
        .unwrap();
    let timing = Timing::Follow(Box::new(Arc::clone(&clock)));
    let emulation = Emulation::start(world, portals, timing, EmulationOptions::default()).unwrap();

    let mut command = Command::new("ptp4l");
    let search = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{search}:/usr/sbin:/sbin"));
    let delay = match profile.delay {
        DelayMechanism::PeerToPeer => "-P",
        DelayMechanism::EndToEnd => "-E",
    };
    let layer = match transport {
        Transport::Layer2 => "-2",
        Transport::Udp4 => "-4",
    };
    let socket = std::env::temp_dir().join(format!(
        "timeloom-emulation-{}-{layer}{delay}{transparent}.sock",
        std::process::id()
    ));
    command
        .args(["-i", "eth0", "-s", "-S", "-m", "-q", delay, layer])
        .args(["--free_running", "1", "--summary_interval", "-3"])
        .args([
            "--tx_timestamp_timeout",
            "200",
            "--fault_reset_interval",
            "-4",
        ])
        .args([
            "--logMinDelayReqInterval",
            "-3",
            "--logMinPdelayReqInterval",
            "-3",
        ])
        // With a free-running clock, ptp4l prints a measurement at the end of each of these
        // intervals, which is once per second.
        .args(["--freq_est_interval", "0"])
        .arg("--uds_address")
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    station.confine(&mut command).unwrap();
    let mut ptp4l = Ptp4l(command.spawn().expect("ptp4l is installed"));
    let output = ptp4l.0.stdout.take().unwrap();
    let (lines, coming) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let all = BufReader::new(output).lines().map_while(Result::ok);
        all.for_each(|line| drop(lines.send(line)));
    });
    let mut found = Vec::new();
    let mut log = String::new();
    let end = StdInstant::now() + StdDuration::from_secs(120);
    while found.len() < 12 && StdInstant::now() < end {
        let Ok(line) = coming.recv_timeout(StdDuration::from_secs(1)) else {
            continue;
        };
        let after = line
            .split_once("master offset")
            .map(|(_, rest)| rest.trim());
        let number = after.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        found.extend(number.map(f64::abs));
        log.push_str(&line);
        log.push('\n');
    }
    drop(ptp4l);
    reader.join().unwrap();
    let _ = std::fs::remove_file(socket);
    let relayed = emulation
        .with(move |engine| {
            let clocks = switches
                .iter()
                .filter_map(|s| PtpNode::at(&engine.model, *s));
            clocks.map(|clock| clock.tally().relayed).sum()
        })
        .unwrap();
    let report = emulation.stop().unwrap();
    assert!(found.len() >= 6, "{log}\n{report:?}");
    found.sort_by(f64::total_cmp);
    (found, relayed)
}

fn compare(profile: Profile, transport: Transport) {
    let profile = Profile {
        log_sync_interval: -3,
        log_delay_interval: -3,
        log_announce_interval: -2,
        priority: (100, 128),
        ..profile
    };
    let median = |offsets: &[f64]| offsets[offsets.len() / 2];
    let ((with, relayed), (without, none)) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| offsets(profile, transport, false));
        (offsets(profile, transport, true), plain.join().unwrap())
    });
    println!(
        "{}: {} ns with, {} ns without",
        profile.name,
        median(&with),
        median(&without)
    );
    assert!(relayed > 0 && none == 0);
    assert!(median(&without) > 2e6, "{without:?}");
    assert!(
        median(&with) < median(&without) / 4.0,
        "{with:?} {without:?}"
    );
}

#[test]
fn ptp4l_synchronises_through_simulated_transparent_clocks_peer_to_peer() {
    compare(Profile::DEFAULT_PEER_TO_PEER, Transport::Layer2);
}

#[test]
fn ptp4l_synchronises_through_simulated_transparent_clocks_over_udp() {
    compare(Profile::DEFAULT, Transport::Udp4);
}

#[test]
fn ptp4l_asks_for_peer_delay_over_udp() {
    compare(Profile::DEFAULT_PEER_TO_PEER, Transport::Udp4);
}
