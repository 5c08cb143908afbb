//! Tests of real programs and the services of a simulated host. The programs are the kernel's TCP,
//! and curl where it is installed. Their path is a TAP device, a router, 2 ms of delay and an MTU
//! of 1000 bytes. The tests need root.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use timeloom_emulation::{Address, Emulation, EmulationOptions, ManualClock, Portals, Tap, Timing};
use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_net::server::{Service, ServiceStats, SimulatedServer, SimulatedServerOptions};
use timeloom_net::{LinkConfig, NetworkBuilder, Node};
use timeloom_time::{Duration, Rate};

/// Objects of a test. The field order makes the emulation end before the namespace.
struct Bed {
    emulation: Emulation,
    fabric: Fabric,
    server: Node,
    address: Ipv4Addr,
}

fn bed() -> Bed {
    let station = StationSpec {
        name: "a".into(),
        addresses: vec![([10, 0, 0, 1].into(), 30)],
        mac: None,
    };
    let fabric = Fabric::build(&NetworkSpec {
        stations: vec![station],
        unplugged: vec!["a".into()],
        ..NetworkSpec::default()
    })
    .expect("run this test as root");
    let mut network = NetworkBuilder::new(3);
    let (a, router, server) = (network.host("a"), network.router("r"), network.host("web"));
    network.connect(
        a,
        router,
        LinkConfig::new(1_000_000_000_000, Duration::ZERO),
    );
    let link = LinkConfig::new(100_000_000, Duration::from_ms(2)).with_mtu(1_000);
    network.connect(router, server, link);
    let mut world = network.build().unwrap();
    let options = SimulatedServerOptions {
        services: vec![(80, Service::Http(3_000)), (7, Service::Echo)],
        connections: 8,
        buffer_bytes: 65_536,
        seed: 5,
    };
    assert!(SimulatedServer::attach(&mut world, server, &options));
    let tap = Address::of(&world, a).unwrap();
    let tap = Tap::create(fabric.station("a").unwrap(), "eth0", &tap).unwrap();
    let mut portals = Portals::new();
    portals
        .join(a, "a", Box::new(tap), Default::default())
        .unwrap();
    let address = world.address(world.port_of(server).unwrap());
    let timing = Timing::Follow(Box::new(Arc::new(ManualClock::new(Rate::ONE))));
    let emulation = Emulation::start(world, portals, timing, EmulationOptions::default()).unwrap();
    Bed {
        emulation,
        fabric,
        server,
        address,
    }
}

impl Bed {
    fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        let to = SocketAddrV4::new(self.address, port);
        let stream = self.fabric.station("a").unwrap();
        let stream = stream.run(|| TcpStream::connect(to)).unwrap()?;
        stream.set_read_timeout(Some(StdDuration::from_secs(60)))?;
        Ok(stream)
    }

    fn stats(&self, index: usize) -> ServiceStats {
        let server = self.server;
        let stats = self.emulation.with(move |engine| {
            SimulatedServer::at(&engine.model, server).map(|server| server.services()[index].2)
        });
        stats.flatten().unwrap()
    }
}

#[test]
fn the_kernels_tcp_gets_every_byte_back() {
    let bed = bed();
    let mut stream = bed.connect(7).unwrap();
    let what: Vec<u8> = (0..1_000_000u32)
        .map(|n| (n.wrapping_mul(n) >> 9) as u8)
        .collect();
    let mut writer = stream.try_clone().unwrap();
    let sent = what.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    writing.join().unwrap();
    assert!(heard == what, "{} of {} bytes", heard.len(), what.len());
    let stats = bed.stats(1);
    assert_eq!((stats.connections, stats.received), (1, 1_000_000));
    let refused = bed.connect(8).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn curl_gets_pages_and_uploads() {
    timeloom_test_support::need("curl", "curl");
    let bed = bed();
    let curl = |args: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["-s", "-o", "/dev/null", "--noproxy", "*", "-m", "60"]);
        command.args(["-w", "%{http_code} %{size_download} %{size_upload}"]);
        command
            .args(args)
            .arg(format!("http://{}{path}", bed.address));
        bed.fabric
            .station("a")
            .unwrap()
            .confine(&mut command)
            .unwrap();
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    assert_eq!(curl(&[], "/"), (Some(0), "200 3000 0".into()));
    assert_eq!(curl(&[], "/400000"), (Some(0), "200 400000 0".into()));
    let much = "x".repeat(50_000);
    let upload = curl(&["--data-binary", &much], "/");
    assert_eq!(upload, (Some(0), "200 17 50000".into()));
    assert_eq!(curl(&[], ":81/").0, Some(7), "refused");
    assert_eq!(bed.stats(0).requests, 3);
}
