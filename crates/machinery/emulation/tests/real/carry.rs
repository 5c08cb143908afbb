//! Tests that frames which are carried arrive unchanged, and that all others are counted.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_emulation::{EmulationOptions, FrameFilter, PortReport, Rule};
use timeloom_engine::Random;
use timeloom_net::{Impairment, LinkConfig, QueueConfig};
use timeloom_time::{Duration, Instant};

use crate::world::{Setup, Testbed, build};

fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed, 0);
    (0..length).map(|_| random.bits() as u8).collect()
}

/// Sends these bytes from `a` to `b` over a real TCP connection, and returns the bytes that
/// arrived.
fn transfer(testbed: &Testbed, bytes: &[u8]) -> Vec<u8> {
    let listener = testbed.namespace("b").tcp_listener("0.0.0.0:80").unwrap();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    let target = (testbed.b_address, 80);
    testbed
        .namespace("a")
        .run(|| {
            let mut stream = TcpStream::connect(target).unwrap();
            stream.write_all(bytes).unwrap();
        })
        .unwrap();
    receiver.join().unwrap()
}

#[test]
fn a_real_tcp_crosses_links_of_all_kinds() {
    let gigabit = LinkConfig::new(1_000_000_000, Duration::from_us(200));
    let fast = LinkConfig::new(40_000_000_000, Duration::ZERO);
    let lossy = Impairment {
        loss: 0.005,
        duplication: 0.005,
        jitter: Duration::from_us(300),
        jitter_reorders: true,
        reordering: 0.005,
    };
    let codel = QueueConfig::CoDel {
        target: Duration::from_ms(1),
        interval: Duration::from_ms(20),
        packets: 100,
        ecn: false,
    };
    let kinds = [
        ("fast", fast, 20_000_000, 0),
        ("gigabit", gigabit.clone(), 10_000_000, 0),
        (
            "shallow",
            gigabit
                .clone()
                .with_queue(QueueConfig::DropTail { packets: 10 }),
            3_000_000,
            0,
        ),
        (
            "lossy",
            gigabit.clone().with_impairment(lossy),
            1_000_000,
            1,
        ),
        ("codel", gigabit.with_queue(codel), 5_000_000, 0),
    ];
    for (name, link, length, least_lost) in kinds {
        let testbed = build(link, Setup::default());
        let bytes = random_bytes(length, 9);
        assert!(transfer(&testbed, &bytes) == bytes, "over the {name} link");
        let report = testbed.emulation.stop().unwrap();
        let lost = report
            .ports
            .iter()
            .map(|port| port.malformed + u64::from(port.gone))
            .sum::<u64>();
        assert_eq!(lost, 0, "{name}: {report:?}");
        let (sent, got) = (&report.ports[0], &report.ports[1]);
        assert!(sent.received_bytes > length as u64, "{name}");
        assert!(
            got.sent_bytes > length as u64 && got.sent >= least_lost,
            "{name}"
        );
        if name == "fast" {
            let each = sent.received_bytes / sent.received;
            assert!(
                each > 3_000,
                "the kernel hands over trains, not {each} bytes each"
            );
        }
    }
}

#[test]
fn datagrams_of_every_size_come_back() {
    let testbed = build(
        LinkConfig::new(1_000_000_000, Duration::ZERO),
        Setup::default(),
    );
    let server = testbed.namespace("b").udp_socket("0.0.0.0:9").unwrap();
    server
        .set_read_timeout(Some(StdDuration::from_secs(120)))
        .unwrap();
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            if length == 0 {
                return;
            }
            server.send_to(&buffer[..length], from).unwrap();
        }
    });
    let client = testbed.namespace("a").udp_socket("0.0.0.0:0").unwrap();
    client
        .set_read_timeout(Some(StdDuration::from_secs(120)))
        .unwrap();
    client.connect((testbed.b_address, 9)).unwrap();
    let mut buffer = vec![0; 65_536];
    // The lengths give padded frames, full ones, and fragments.
    for length in [1, 17, 18, 19, 1_000, 1_472, 1_473, 9_000, 65_507] {
        let bytes = random_bytes(length, length as u64);
        client.send(&bytes).unwrap();
        let got = client.recv(&mut buffer).unwrap();
        assert!(buffer[..got] == bytes, "{length} bytes");
    }
    client.send(&[]).unwrap();
    echo.join().unwrap();
}

#[test]
fn filters_hold_back_matching_frames() {
    let block = FrameFilter {
        rules: vec![Rule {
            port: Some(7_777),
            ..Rule::default()
        }],
    };
    let testbed = build(
        LinkConfig::new(1_000_000_000, Duration::ZERO),
        Setup {
            filters: [block, FrameFilter::default()],
            ..Setup::default()
        },
    );
    let server = testbed.namespace("b").udp_socket("0.0.0.0:9").unwrap();
    server
        .set_read_timeout(Some(StdDuration::from_secs(120)))
        .unwrap();
    let from = |port: u16| {
        testbed
            .namespace("a")
            .udp_socket(("0.0.0.0", port))
            .unwrap()
    };
    let (blocked, free) = (from(7_777), from(7_778));
    blocked.send_to(b"blocked", (testbed.b_address, 9)).unwrap();
    free.send_to(b"free", (testbed.b_address, 9)).unwrap();
    let mut buffer = [0; 16];
    let length = server.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"free");
    assert_eq!(testbed.emulation.stop().unwrap().ports[0].filtered, 1);
}

#[test]
fn captures_show_the_frames_of_a_wire() {
    let (frames, seen) = mpsc::channel();
    let testbed = build(
        LinkConfig::new(10_000_000_000, Duration::ZERO),
        Setup {
            watch: true,
            options: EmulationOptions {
                capture: Some(Box::new(move |port, at, _, bytes: &[u8]| {
                    frames.send((port, at, bytes.to_vec())).unwrap();
                })),
                ..EmulationOptions::default()
            },
            ..Setup::default()
        },
    );
    let bytes = random_bytes(1_000_000, 5);
    assert!(transfer(&testbed, &bytes) == bytes);
    testbed.emulation.stop().unwrap();
    let mut payload = 0;
    for (_, _, frame) in seen {
        assert!(frame.len() <= 1_514, "{} bytes on a wire", frame.len());
        if frame[12..14] != [8, 0] {
            continue;
        }
        let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let ip = &frame[14..14 + length];
        let mut pseudo = ip[12..20].to_vec();
        pseudo.extend([0, ip[9]]);
        pseudo.extend((ip.len() as u16 - 20).to_be_bytes());
        pseudo.extend(&ip[20..]);
        assert_eq!(sum(&ip[..20]), 0xffff);
        assert_eq!(sum(&pseudo), 0xffff, "a checksum that no receiver accepts");
        payload += length - 20 - usize::from(ip[32] >> 4) * 4;
    }
    assert!(payload >= bytes.len(), "{payload}");
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0, |sum, word| {
        let sum = sum + (u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        (sum >> 16) + (sum & 0xffff)
    })
}

/// The portal uses an existing interface, as for a container. One end of a veth pair is in the
/// guest's namespace, and the packet socket is on the other end.
#[test]
fn a_packet_socket_is_a_portal_too() {
    use timeloom_emulation::{Emulation, ManualClock, PacketOptions, PacketPort, Portals, Timing};
    use timeloom_fabric::{Fabric, LinkSpec, NetworkSpec, StationSpec};
    use timeloom_net::NetworkBuilder;
    use timeloom_time::Rate;

    for offloads in [true, false] {
        let station = |name: &str, address: [u8; 4], prefix_len| StationSpec {
            name: name.into(),
            addresses: vec![(address.into(), prefix_len)],
            mac: None,
        };
        let link = |a: &str, b: &str| LinkSpec {
            a: a.into(),
            b: b.into(),
            rate_bits_per_s: None,
        };
        let fabric = Fabric::build(&NetworkSpec {
            stations: vec![
                station("a", [10, 0, 0, 1], 24),
                station("b", [10, 0, 0, 2], 24),
                station("pa", [192, 0, 2, 1], 30),
                station("pb", [192, 0, 2, 5], 30),
            ],
            links: vec![link("a", "pa"), link("b", "pb")],
            ..NetworkSpec::default()
        })
        .unwrap();
        let mut network = NetworkBuilder::new(1);
        let (switch, a, b) = (network.switch("s"), network.host("a"), network.host("b"));
        let gigabit = LinkConfig::new(1_000_000_000, Duration::from_us(100));
        for (host, last) in [(a, 1), (b, 2)] {
            let (port, _) = network.connect(host, switch, gigabit.clone());
            network.set_address(port, IpAddr::from([10, 0, 0, last]), 24);
        }
        let mut world = network.build().unwrap();
        let mut portals = Portals::new();
        for (node, name, beyond) in [(a, "a", "pa"), (b, "b", "pb")] {
            world.set_mac(node, fabric.mac(name).unwrap().0);
            let options = PacketOptions {
                offloads,
                ..PacketOptions::default()
            };
            let port = PacketPort::open(fabric.station(beyond).unwrap(), "eth0", options).unwrap();
            let filters = Default::default();
            portals.join(node, name, Box::new(port), filters).unwrap();
        }
        let clock = std::sync::Arc::new(ManualClock::new(Rate::ONE));
        let timing = Timing::Follow(Box::new(clock));
        let emulation =
            Emulation::start(world, portals, timing, EmulationOptions::default()).unwrap();
        let listener = fabric
            .station("b")
            .unwrap()
            .tcp_listener("0.0.0.0:80")
            .unwrap();
        let bytes = random_bytes(2_000_000, 4);
        let receiver = thread::spawn(move || {
            let mut received = Vec::new();
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        let target = ([10, 0, 0, 2], 80);
        fabric
            .station("a")
            .unwrap()
            .run(|| {
                let mut stream = TcpStream::connect(std::net::SocketAddr::from(target)).unwrap();
                stream.write_all(&bytes).unwrap();
            })
            .unwrap();
        assert!(receiver.join().unwrap() == bytes, "offloads: {offloads}");
        let report = emulation.stop().unwrap();
        assert_eq!(report.counters.malformed, 0, "{report:?}");
    }
}

/// The kernel's queue to a portal is limited. What the kernel drops is counted.
#[test]
fn frames_dropped_by_the_kernel_are_counted() {
    let testbed = build(
        LinkConfig::new(1_000_000_000, Duration::ZERO),
        Setup {
            options: EmulationOptions {
                // The thread seldom reads the portal.
                moderation: Duration::from_ms(500),
                ..EmulationOptions::default()
            },
            ..Setup::default()
        },
    );
    let server = testbed.namespace("b").udp_socket("0.0.0.0:9").unwrap();
    let client = testbed.namespace("a").udp_socket("0.0.0.0:0").unwrap();
    let target = (testbed.b_address, 9);
    // After the first frame the thread pauses. Meanwhile more frames arrive than the kernel's queue
    // holds.
    client.send_to(b"first", target).unwrap();
    server
        .set_read_timeout(Some(StdDuration::from_secs(120)))
        .unwrap();
    server.recv(&mut [0; 16]).unwrap();
    for _ in 0..5_000 {
        // The kernel may also refuse the frame at this call.
        let _ = client.send_to(&[7; 64], target);
    }
    let report = testbed.emulation.stop().unwrap();
    let port = &report.ports[0];
    assert!(port.dropped_before > 1_000, "{report:?}");
    assert!(
        report.untrusted(),
        "what the machine lost, the network did not"
    );
}

/// All frames of a step are due in one iteration, and each costs the receiving kernel a traversal
/// of its stack. Frames of the same flow are delivered as one train, and programs see no
/// difference.
#[test]
fn frames_of_one_iteration_go_out_as_a_train() {
    for join in [true, false] {
        let setup = Setup {
            steps: true,
            options: EmulationOptions {
                join,
                ..EmulationOptions::default()
            },
            ..Setup::default()
        };
        let testbed = build(LinkConfig::new(1_000_000_000, Duration::ZERO), setup);
        let server = testbed.namespace("b").udp_socket("0.0.0.0:9").unwrap();
        let client = testbed.namespace("a").udp_socket("0.0.0.0:0").unwrap();
        client.connect((testbed.b_address, 9)).unwrap();
        let emulation = &testbed.emulation;
        let mut granted = Instant::ZERO;
        let mut step = || {
            granted += Duration::from_ms(10);
            emulation.grant(granted);
        };
        // The first frame triggers address resolution.
        let mut buffer = [0; 2_000];
        server
            .set_read_timeout(Some(StdDuration::from_millis(20)))
            .unwrap();
        client.send(b"first").unwrap();
        while server.recv(&mut buffer).is_err() {
            step();
        }
        let before = emulation.report().unwrap().ports;
        let sent: Vec<_> = (0..40).map(|index| random_bytes(1_000, index)).collect();
        for datagram in &sent {
            client.send(datagram).unwrap();
        }
        let taken_in = |ports: &[PortReport]| ports[0].received - before[0].received;
        while taken_in(&emulation.report().unwrap().ports) < 40 {
            thread::sleep(StdDuration::from_millis(1));
        }
        step();
        server
            .set_read_timeout(Some(StdDuration::from_secs(120)))
            .unwrap();
        for datagram in &sent {
            let length = server.recv(&mut buffer).unwrap();
            assert!(buffer[..length] == datagram[..], "joined: {join}");
        }
        let after = emulation.report().unwrap().ports;
        assert_eq!(after[1].refused, 0);
        let frames = after[1].sent - before[1].sent;
        assert_eq!(frames, if join { 1 } else { 40 });
    }
}
