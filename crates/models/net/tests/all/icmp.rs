//! ICMP errors of routers and simulated hosts, and packets that are longer than a link's MTU.

use std::net::Ipv4Addr;

use crate::common::{GBIT, bare, ms};
use timeloom_engine::{Engine, Random};
use timeloom_net::{NetworkBuilder, Node, World};
use timeloom_time::Duration;

const UDP: u8 = 17;
const ICMP: u8 = 1;

/// Network a – r1 – r2 – b, c and d; the link between r1 and r2 has an MTU of 1,000 bytes. `a` and
/// `b` are open to packets, `c` is simulated, and `d` is open to frames, but no program answers
/// there.
struct Net {
    engine: Engine<World>,
    nodes: [Node; 6],
}

fn net() -> Net {
    let mut network = NetworkBuilder::new(5);
    let (a, b, c, d) = (
        network.host("a"),
        network.host("b"),
        network.host("c"),
        network.host("d"),
    );
    let (r1, r2) = (network.router("r1"), network.router("r2"));
    let lan = network.switch("lan");
    let link = bare(GBIT, Duration::from_us(100), 1_000);
    network.connect(a, r1, link.clone());
    network.connect(r1, r2, link.clone().with_mtu(1_000));
    network.connect(r2, lan, link.clone());
    for (station, last) in [(b, 10), (c, 11), (d, 12)] {
        let (_, port) = network.connect(lan, station, link.clone());
        network.set_address(port, Ipv4Addr::new(10, 9, 0, last), 24);
    }
    let mut world = network.build().unwrap();
    world.open(a);
    world.open(b);
    world.open_frames(d);
    let nodes = [a, b, c, d, r1, r2];
    Net {
        engine: Engine::new(world),
        nodes,
    }
}

fn packet(protocol: u8, [src, dst]: [Ipv4Addr; 2], ttl: u8, df: bool, after: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, ttl, protocol, 0, 0];
    bytes[6] = if df { 0x40 } else { 0 };
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    bytes.extend(after);
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = !sum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let sum = words.fold(0u32, |sum, word| {
        let sum = sum + (u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        (sum >> 16) + (sum & 0xffff)
    });
    sum as u16
}

impl Net {
    fn address(&self, node: usize) -> Ipv4Addr {
        let world = &self.engine.model;
        world.address(world.port_of(self.nodes[node]).unwrap())
    }

    /// Sends a packet from `a`. Returns the packets for `a` and `b` within the next ten seconds,
    /// each with the number of its node.
    fn send(&mut self, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let a = self.nodes[0];
        self.engine
            .with(|world, agenda| world.send_raw(a, bytes, agenda));
        let until = self.engine.now() + Duration::from_s(10);
        self.engine.run_until(until, u64::MAX);
        let nodes = self.nodes;
        let own = |node: Node, _, bytes: &[u8]| {
            let place = nodes.iter().position(|other| *other == node);
            (place.unwrap(), bytes.to_vec())
        };
        let taken = std::iter::from_fn(|| self.engine.model.take_raw(own)).collect();
        while self.engine.model.take_frame(|_, _| ()).is_some() {}
        assert_eq!(self.engine.model.packets_alive(), 0);
        taken
    }

    /// Sends a packet from `a` that causes an error. Returns the error's source, type and code, the
    /// MTU field, and the quotation.
    fn refused(&mut self, bytes: &[u8]) -> (Ipv4Addr, [u8; 2], u16, Vec<u8>) {
        let errors = self.engine.model.counters().icmp_errors;
        let came = self.send(bytes);
        let [(0, error)] = &came[..] else {
            panic!("one error to `a`, not {came:?}");
        };
        assert_eq!(self.engine.model.counters().icmp_errors, errors + 1);
        assert_eq!(
            (error[9], sum(&error[..20]), sum(&error[20..])),
            (ICMP, 0xffff, 0xffff)
        );
        let from: [u8; 4] = error[12..16].try_into().unwrap();
        let rest = u16::from_be_bytes([error[26], error[27]]);
        (
            from.into(),
            [error[20], error[21]],
            rest,
            error[28..].to_vec(),
        )
    }
}

#[test]
fn each_router_on_the_way_says_when_the_time_is_up() {
    let mut net = net();
    let (a, b) = (net.address(0), net.address(1));
    for (ttl, router) in [(1, 4), (2, 5)] {
        let sent = packet(UDP, [a, b], ttl, true, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let (from, what, _, quoted) = net.refused(&sent);
        // The route from both routers to `a` leaves by their first interface.
        assert_eq!((from, what), (net.address(router), [11, 0]));
        assert_eq!(quoted[8], 1, "as it arrived");
        assert_eq!((&quoted[..8], &quoted[12..]), (&sent[..8], &sent[12..]));
    }
    let came = net.send(&packet(UDP, [a, b], 3, true, b"there"));
    assert_eq!(
        (came.len(), came[0].0, &came[0].1[20..]),
        (1, 1, &b"there"[..])
    );
    assert_eq!(net.engine.model.counters().ttl_exceeded, 2);
}

#[test]
fn packets_that_must_not_be_fragmented_are_refused_with_the_mtu() {
    let mut net = net();
    let (a, b) = (net.address(0), net.address(1));
    let (from, what, mtu, quoted) = net.refused(&packet(UDP, [a, b], 64, true, &[9; 981]));
    assert_eq!((from, what, mtu), (net.address(4), [3, 4], 1_000));
    assert_eq!(quoted.len(), 548, "as much as fits into 576 bytes");
    let came = net.send(&packet(UDP, [a, b], 64, true, &[9; 980]));
    assert_eq!((came.len(), came[0].1.len()), (1, 1_000));
    assert_eq!(net.engine.model.counters().too_long, 1);
}

#[test]
fn packets_that_may_be_fragmented_arrive_in_fragments() {
    let mut net = net();
    let (a, b) = (net.address(0), net.address(1));
    let mut random = Random::new(6, 0);
    for length in [981usize, 1_480, 5_000, 40_000] {
        let payload: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        let came = net.send(&packet(UDP, [a, b], 64, false, &payload));
        assert_eq!(came.len(), length.div_ceil(976));
        let mut whole = Vec::new();
        for (index, (node, part)) in came.iter().enumerate() {
            let fragment = u16::from_be_bytes([part[6], part[7]]);
            assert_eq!(
                (*node, sum(&part[..20]), &part[4..6]),
                (1, 0xffff, &[0x12, 0x34][..])
            );
            assert_eq!(usize::from(fragment & 0x1fff) * 8, whole.len());
            assert_eq!(fragment & 0x2000 != 0, index + 1 < came.len());
            assert_eq!(part[8], 62, "two routers were passed");
            whole.extend_from_slice(&part[20..]);
        }
        assert!(whole == payload, "{length}");
    }
}

#[test]
fn unused_addresses_are_unreachable() {
    let mut net = net();
    let a = net.address(0);
    let probe = |dst| packet(UDP, [a, dst], 64, false, &[0; 8]);
    let (from, what, ..) = net.refused(&probe(Ipv4Addr::new(10, 200, 0, 1)));
    assert_eq!((from, what), (net.address(4), [3, 0]), "no such network");
    let (from, what, ..) = net.refused(&probe(Ipv4Addr::new(10, 9, 0, 77)));
    assert_eq!(
        (from, what),
        (net.address(5), [3, 1]),
        "no such host, says the last router"
    );
    let dying = packet(UDP, [a, Ipv4Addr::new(10, 9, 0, 77)], 1, false, &[0; 8]);
    let (from, what, ..) = net.refused(&dying);
    assert_eq!(
        (from, what),
        (net.address(4), [11, 0]),
        "it is on its way there"
    );
    // No program at `d` answers ARP requests.
    let (from, what, ..) = net.refused(&probe(Ipv4Addr::new(10, 9, 0, 12)));
    assert_eq!((from, what), (net.address(5), [3, 1]), "no answer");
    assert_eq!(net.engine.model.counters().arp_failed, 1);
}

#[test]
fn ports_of_simulated_hosts_and_routers_are_unreachable() {
    let mut net = net();
    let a = net.address(0);
    for node in [2, 4, 5] {
        let dst = net.address(node);
        let (from, what, ..) = net.refused(&packet(UDP, [a, dst], 64, false, &[0; 8]));
        assert_eq!((from, what), (dst, [3, 3]));
    }
}

#[test]
fn there_is_no_answer_to_errors_parts_and_broadcasts() {
    let mut net = net();
    let a = net.address(0);
    let nowhere = Ipv4Addr::new(10, 200, 0, 1);
    let mut part = packet(UDP, [a, nowhere], 64, false, &[0; 8]);
    part[7] = 1;
    part[10..12].copy_from_slice(&[0, 0]);
    let others = [
        packet(ICMP, [a, nowhere], 64, false, &[3, 3, 0, 0, 0, 0, 0, 0]),
        packet(UDP, [a, Ipv4Addr::new(10, 9, 0, 255)], 64, false, &[0; 8]),
        packet(UDP, [a, Ipv4Addr::new(224, 0, 0, 251)], 1, false, &[0; 8]),
        packet(
            UDP,
            [Ipv4Addr::new(8, 8, 8, 8), nowhere],
            64,
            false,
            &[0; 8],
        ),
        part,
    ];
    for (index, bytes) in others.iter().enumerate() {
        assert_eq!(net.send(bytes), [], "number {index}");
    }
    // `send_raw` itself drops packets whose destination address no interface has.
    let counters = net.engine.model.counters();
    assert_eq!(counters.icmp_errors, 0, "{counters:?}");
    assert_eq!(counters.no_route, 5, "{counters:?}");
}

#[test]
fn errors_to_one_address_come_six_at_once_and_then_one_a_second() {
    let mut net = net();
    let (a, b) = (net.address(0), net.address(1));
    let dying = packet(UDP, [a, b], 1, false, &[0; 8]);
    let flood = |net: &mut Net, s: i64| {
        let node = net.nodes[0];
        for _ in 0..10 {
            net.engine
                .with(|world, agenda| world.send_raw(node, &dying, agenda));
        }
        let until = net.engine.now() + Duration::from_s(s);
        net.engine.run_until(until, u64::MAX);
        std::iter::from_fn(|| net.engine.model.take_raw(|_, _, _| ())).count()
    };
    assert_eq!([1, 2, 30, 1].map(|s| flood(&mut net, s)), [6, 1, 2, 6]);
    assert_eq!(net.engine.model.counters().icmp_limited, 40 - 15);
}

#[test]
fn every_packet_is_answered_or_dropped() {
    let seed = 17;
    let mut random = Random::new(seed, 0);
    let mut net = net();
    let (a, b) = (net.address(0), net.address(1));
    for round in 0..2_000 {
        let length = random.below(1_500) as usize;
        let mut bytes = packet(UDP, [a, b], random.below(5) as u8, false, &vec![3; length]);
        for _ in 0..random.below(4) {
            let at = random.below(24.min(bytes.len() as u64)) as usize;
            bytes[at] = random.bits() as u8;
        }
        let a = net.nodes[0];
        net.engine
            .with(|world, agenda| world.send_raw(a, &bytes, agenda));
        let until = net.engine.now() + Duration::from_ms(5);
        net.engine.run_until(until, u64::MAX);
        while let Some(length) = net.engine.model.take_raw(|_, _, bytes| bytes.len()) {
            assert!(length >= 20, "seed {seed}, round {round}");
        }
    }
    net.engine.run_until(ms(60_000), u64::MAX);
    while net.engine.model.take_raw(|_, _, _| ()).is_some() {}
    while net.engine.model.take_frame(|_, _| ()).is_some() {}
    assert_eq!(net.engine.model.packets_alive(), 0, "seed {seed}");
    let counters = net.engine.model.counters();
    assert!(
        counters.icmp_errors > 20 && counters.icmp_limited > 20,
        "{counters:?}"
    );
}
