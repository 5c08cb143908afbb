//! Tests of ICMP errors and ECN marks that the model's routers send to real kernels: time exceeded,
//! host unreachable, packet too big, and congestion.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration as StdDuration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, ip_mtu, set_ip_mtu_discover, set_ip_ttl};
use timeloom_emulation::{Emulation, EmulationOptions, ManualClock, Portals, Timing};
use timeloom_fabric::{Fabric, Namespace};
use timeloom_net::{LinkConfig, NetworkBuilder, PortId, QueueConfig};
use timeloom_sys::control::{ControlBuffer, ControlMessage, hear_errors, receive};
use timeloom_time::{Duration, Rate};

use crate::world::{tap, two_hosts};

/// Path a – r1 – r2 – b. The field order makes the emulation end before the namespaces.
struct Path {
    emulation: Emulation,
    fabric: Fabric,
    /// Addresses of the hops of a traceroute to `b`: the near side of r1, the near side of r2, and
    /// b.
    hops: [Ipv4Addr; 3],
    /// Port of r1 at the link to r2.
    middle: PortId,
}

fn path(middle: LinkConfig) -> Path {
    let fabric = two_hosts(9);
    let mut network = NetworkBuilder::new(8);
    let (a, b) = (network.host("a"), network.host("b"));
    let (r1, r2) = (network.router("r1"), network.router("r2"));
    let card = LinkConfig::new(1_000_000_000_000, Duration::ZERO);
    let (_, first) = network.connect(a, r1, card.clone());
    let (middle, second) = network.connect(r1, r2, middle);
    network.connect(r2, b, card);
    let world = network.build().unwrap();
    let third = world.port_of(b).unwrap();
    let hops = [first, second, third].map(|port| world.address(port));
    let mut portals = Portals::new();
    for (node, name) in [(a, "a"), (b, "b")] {
        let tap = tap(&world, node, fabric.station(name).unwrap());
        portals
            .join(node, name, Box::new(tap), Default::default())
            .unwrap();
    }
    let timing = Timing::Follow(Box::new(Arc::new(ManualClock::new(Rate::ONE))));
    let emulation = Emulation::start(world, portals, timing, EmulationOptions::default()).unwrap();
    Path {
        emulation,
        fabric,
        hops,
        middle,
    }
}

fn link() -> LinkConfig {
    LinkConfig::new(100_000_000, Duration::from_ms(2))
}

impl Path {
    fn namespace(&self, name: &str) -> &Namespace {
        self.fabric.station(name).unwrap()
    }

    /// Opens a datagram socket in `a` that receives ICMP errors.
    fn prober(&self) -> UdpSocket {
        let socket = self.namespace("a").udp_socket("0.0.0.0:0").unwrap();
        hear_errors(&socket).unwrap();
        set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).unwrap();
        socket
    }

    /// Sets a sysctl of a namespace.
    fn sysctl(&self, name: &str, key: &str, value: &str) {
        let path = format!("/proc/sys/net/ipv4/{key}");
        let written = self.namespace(name).run(|| std::fs::write(&path, value));
        written
            .unwrap()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// ICMP error from the error queue of a socket (ip(7)).
#[derive(Debug, PartialEq)]
struct IcmpError {
    by: Ipv4Addr,
    kind: u8,
    code: u8,
    info: u32,
}

/// Returns the next error that arrives at a socket within twenty seconds.
fn hear(socket: &UdpSocket) -> IcmpError {
    let mut ready = [PollFd::new(socket, PollFlags::empty())];
    let patience = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut ready, Some(&patience)), Ok(1), "no answer");
    let mut control = ControlBuffer::default();
    receive(socket, &mut [], &mut control, RecvFlags::ERRQUEUE).unwrap();
    for message in control.messages() {
        if let ControlMessage::Error { kind, info, by, .. } = message {
            return IcmpError {
                by: by.expect("an ICMP message"),
                kind: kind.0,
                code: kind.1,
                info,
            };
        }
    }
    panic!("an error without a cause");
}

#[test]
fn a_route_can_be_traced() {
    let path = path(link());
    let socket = path.prober();
    let target = SocketAddrV4::new(path.hops[2], 33_434);
    for (ttl, by) in (1..).zip(path.hops) {
        set_ip_ttl(&socket, ttl).unwrap();
        socket.send_to(b"probe", target).unwrap();
        let told = hear(&socket);
        // The last hop is b's own kernel, at which the port is closed.
        let what = if ttl < 3 { (11, 0) } else { (3, 3) };
        assert_eq!((told.by, (told.kind, told.code)), (by, what), "{told:?}");
    }
    let counters = path.emulation.stop().unwrap().counters;
    assert_eq!((counters.ttl_exceeded, counters.icmp_errors), (2, 2));
}

/// Routers on the path must answer a real traceroute.
#[test]
fn traceroute_shows_the_routers() {
    let traceroute = timeloom_test_support::need("traceroute", "traceroute");
    let path = path(link());
    let mut command = Command::new(traceroute);
    let target = path.hops[2].to_string();
    command.args(["-n", "-q", "1", "-w", "10", &target]);
    path.namespace("a").confine(&mut command).unwrap();
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let hops = said.lines().skip(1).map(|line| {
        let mut words = line.split_whitespace();
        words.nth(1).unwrap_or_default().to_owned()
    });
    let expected = path.hops.map(|hop| hop.to_string());
    assert_eq!(hops.collect::<Vec<_>>(), expected, "{said}");
}

#[test]
fn an_absent_network_is_unreachable() {
    let path = path(link());
    let socket = path.prober();
    socket.send_to(b"probe", "10.77.0.1:9").unwrap();
    let told = hear(&socket);
    assert_eq!(
        (told.by, told.kind, told.code),
        (path.hops[0], 3, 0),
        "{told:?}"
    );
}

#[test]
fn a_kernel_finds_the_mtu_of_its_path() {
    let path = path(link().with_mtu(1_200));
    // A bulk transfer continues with smaller segments. An end that already knows the path's MTU
    // announces it to the other end by its MSS, so only the first transfer gets an ICMP error.
    for (server, client) in [("a", "b"), ("b", "a")] {
        let address = if server == "b" {
            path.hops[2]
        } else {
            [10, 0, 0, 1].into()
        };
        let listener = path.namespace(server).tcp_listener("0.0.0.0:80").unwrap();
        let receiver = thread::spawn(move || {
            let mut received = Vec::new();
            listener
                .accept()
                .unwrap()
                .0
                .read_to_end(&mut received)
                .unwrap();
            received
        });
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
        let sent = path.namespace(client).run(|| {
            TcpStream::connect((address, 80))
                .unwrap()
                .write_all(&bytes)
                .unwrap();
        });
        sent.unwrap();
        assert!(
            receiver.join().unwrap() == bytes,
            "from {client} to {server}"
        );
    }
    // With a datagram, the kernel receives the error and stores the MTU of the path.
    let socket = path.prober();
    socket.connect((path.hops[2], 9)).unwrap();
    assert_eq!(ip_mtu(&socket).unwrap(), 1_500);
    socket.send(&[1; 1_400]).unwrap();
    let told = hear(&socket);
    assert_eq!(
        (told.by, told.kind, told.code, told.info),
        (path.hops[0], 3, 4, 1_200)
    );
    assert_eq!(ip_mtu(&socket).unwrap(), 1_200);
    let counters = path.emulation.stop().unwrap().counters;
    assert!(
        counters.too_long >= 2 && counters.icmp_errors >= 2,
        "{counters:?}"
    );
}

#[test]
fn packets_that_may_be_fragmented_are_fragmented_by_routers() {
    let path = path(link().with_mtu(700));
    let server = path.namespace("b").udp_socket("0.0.0.0:9").unwrap();
    server
        .set_read_timeout(Some(StdDuration::from_secs(120)))
        .unwrap();
    let client = path.namespace("a").udp_socket("0.0.0.0:0").unwrap();
    set_ip_mtu_discover(&client, Ipv4PathMtuDiscovery::DONT).unwrap();
    // The kernel sends the first datagram whole, and fragments the second one before sending.
    for length in [1_400, 9_000] {
        let bytes: Vec<u8> = (0..length).map(|at| (at / 5) as u8).collect();
        client.send_to(&bytes, (path.hops[2], 9)).unwrap();
        let mut buffer = vec![0; 65_536];
        let length = server.recv(&mut buffer).unwrap();
        assert!(buffer[..length] == bytes);
    }
    assert_eq!(path.emulation.stop().unwrap().counters.too_long, 0);
}

#[test]
fn real_kernels_slow_down_at_marks_of_the_model() {
    for ecn in [true, false] {
        let codel = QueueConfig::CoDel {
            target: Duration::from_ms(2),
            interval: Duration::from_ms(20),
            packets: 2_000,
            ecn,
        };
        let slow = LinkConfig::new(50_000_000, Duration::from_ms(2)).with_queue(codel);
        let path = path(slow);
        for name in ["a", "b"] {
            path.sysctl(name, "tcp_ecn", "1");
            // Not every congestion control reacts to marks. Reno does, and is in every kernel.
            path.sysctl(name, "tcp_congestion_control", "reno");
        }
        let listener = path.namespace("b").tcp_listener("0.0.0.0:80").unwrap();
        let receiver = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            io::copy(&mut stream, &mut io::sink()).unwrap()
        });
        let target = (path.hops[2], 80);
        let sent = path.namespace("a").run(|| {
            let mut stream = TcpStream::connect(target).unwrap();
            stream.write_all(&vec![0; 12_000_000]).unwrap();
        });
        sent.unwrap();
        assert_eq!(receiver.join().unwrap(), 12_000_000);
        let middle = path.middle;
        let link = path
            .emulation
            .with(move |engine| engine.model.link(middle))
            .unwrap();
        // If a kernel ignored marks, its packets would all be marked in the end, since CoDel marks
        // more and more often.
        assert_eq!(link.marked > 0, ecn, "{link:?}");
        assert!(link.marked * 20 < link.packets, "{link:?}");
        assert_eq!(link.dropped > 0, !ecn, "{link:?}");
    }
}
