//! IPv6 packets of real programs: forwarding by routers, ICMPv6 errors, and neighbour discovery.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::{GBIT, bare};
use timeloom_engine::Engine;
use timeloom_net::{BuildError, LARGE, NetworkBuilder, Node, Offload, World};
use timeloom_time::Duration;

/// Packet received at a node: index of the node in the list, and the bytes.
type Packet = (usize, Vec<u8>);

const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Network a – r1 – r2 – LAN with b, c and d; the link between r1 and r2 has an MTU of 1,300 bytes.
/// `a` and `b` are open to packets, `c` is simulated, and `d` is open to frames. All have IPv6
/// addresses; `old`, on the same LAN, has only an IPv4 address, and `b` has none.
struct Net {
    engine: Engine<World>,
    nodes: [Node; 7],
}

/// Index of node `a` in the list of nodes; the others follow.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const OLD: usize = 4;
const R1: usize = 5;
const R2: usize = 6;

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn net() -> Net {
    let mut network = NetworkBuilder::new(5);
    let [a, b, c, d, old] = ["a", "b", "c", "d", "old"].map(|name| network.host(name));
    let (r1, r2) = (network.router("r1"), network.router("r2"));
    let lan = network.switch("lan");
    let link = bare(GBIT, Duration::from_us(100), 1_000);
    let (at_a, _) = network.connect(a, r1, link.clone());
    network.set_address(at_a, v6("fd00:1::2"), 64);
    network.set_address(at_a, Ipv4Addr::new(10, 1, 0, 2), 24);
    network.connect(r1, r2, link.clone().with_mtu(1_300));
    network.connect(r2, lan, link.clone());
    for (station, last) in [(b, 10), (c, 11), (d, 12), (old, 13)] {
        let (_, port) = network.connect(lan, station, link.clone());
        if station != old {
            network.set_address(port, v6(&format!("fd00:9::{last}")), 64);
        }
        if station != b {
            network.set_address(port, Ipv4Addr::new(10, 9, 0, last), 24);
        }
    }
    let mut world = network.build().unwrap();
    world.open(a);
    world.open(b);
    world.open_frames(d);
    Net {
        engine: Engine::new(world),
        nodes: [a, b, c, d, old, r1, r2],
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words.fold(0u32, |sum, word| {
        let sum = sum + (u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        (sum >> 16) + (sum & 0xffff)
    })
}

/// Returns true if the checksum of an ICMPv6 packet is correct.
fn is_sound(packet: &[u8]) -> bool {
    let pseudo = sum(&packet[8..40]) + u32::from(ICMPV6) + (packet.len() - 40) as u32;
    let whole = pseudo + sum(&packet[40..]);
    (whole >> 16) + (whole & 0xffff) == 0xffff
}

fn packet(protocol: u8, [src, dst]: [Ipv6Addr; 2], hops: u8, after: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol, hops];
    bytes[4..6].copy_from_slice(&(after.len() as u16).to_be_bytes());
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    bytes.extend(after);
    if protocol == ICMPV6 {
        let pseudo = sum(&bytes[8..40]) + u32::from(ICMPV6) + after.len() as u32;
        let whole = pseudo + sum(&bytes[40..]);
        let own = !(((whole >> 16) + (whole & 0xffff)) as u16);
        bytes[42..44].copy_from_slice(&own.to_be_bytes());
    }
    bytes
}

impl Net {
    fn address(&self, node: usize) -> Ipv6Addr {
        let world = &self.engine.model;
        let port = world.port_of(self.nodes[node]).unwrap();
        world.address_v6(port).expect("it has one").0
    }

    /// Runs for ten seconds; returns the packets for `a` and `b`, and the frames at `d`.
    fn pass(&mut self) -> (Vec<Packet>, Vec<Vec<u8>>) {
        let until = self.engine.now() + Duration::from_s(10);
        self.engine.run_until(until, u64::MAX);
        let nodes = self.nodes;
        let own = |node: Node, _, bytes: &[u8]| {
            let place = nodes.iter().position(|other| *other == node);
            (place.unwrap(), bytes.to_vec())
        };
        let packets = std::iter::from_fn(|| self.engine.model.take_raw(own)).collect();
        let frame = |_, frame: timeloom_net::Frame<'_>| [frame.head, frame.rest].concat();
        let frames = std::iter::from_fn(|| self.engine.model.take_frame(frame)).collect();
        assert_eq!(self.engine.model.packets_alive(), 0);
        (packets, frames)
    }

    fn send(&mut self, from: usize, bytes: &[u8]) -> Vec<Packet> {
        let from = self.nodes[from];
        self.engine
            .with(|world, agenda| world.send_raw(from, bytes, agenda));
        self.pass().0
    }

    fn put(&mut self, frame: &[u8]) {
        let mut buffer = frame.to_vec();
        buffer.resize(LARGE, 0);
        let (d, used) = (self.nodes[D], frame.len());
        self.engine.with(|world, agenda| {
            world.send_frame(d, &mut buffer, used, Offload::default(), agenda);
        });
    }

    /// Sends a packet from `a` that causes an error. Returns the error's source, type and code, the
    /// four bytes after its checksum, and the quotation.
    fn refused(&mut self, bytes: &[u8]) -> (Ipv6Addr, [u8; 2], u32, Vec<u8>) {
        let errors = self.engine.model.counters().icmp_errors;
        let came = self.send(A, bytes);
        let [(A, error)] = &came[..] else {
            panic!("one error to `a`, not {came:?}");
        };
        assert_eq!(self.engine.model.counters().icmp_errors, errors + 1);
        assert!(error[6] == ICMPV6 && is_sound(error), "{error:?}");
        let from: [u8; 16] = error[8..24].try_into().unwrap();
        let rest = u32::from_be_bytes(error[44..48].try_into().unwrap());
        (
            from.into(),
            [error[40], error[41]],
            rest,
            error[48..].to_vec(),
        )
    }
}

#[test]
fn addresses_are_given_where_they_are_missing_and_wanted() {
    let net = net();
    let world = &net.engine.model;
    let port = |node: usize| world.port_of(net.nodes[node]).unwrap();
    assert_eq!(world.gateway_v6(net.nodes[A]), Some(v6("fd00:1::1")));
    assert_eq!(world.gateway_v6(net.nodes[C]), Some(v6("fd00:9::1")));
    assert_eq!(world.address_v6(port(OLD)), None, "one of IPv4 was enough");
    assert!(world.address(port(B)).is_unspecified(), "and one of IPv6");
    // The link between the routers has its own network.
    let between = world.address_v6(port(R2)).unwrap();
    assert_eq!((between.0, between.1), (v6("fd54:4c00::2"), 64));
}

#[test]
fn packets_arrive_with_fewer_hops_and_nothing_else_changed() {
    let mut net = net();
    let (a, b) = (net.address(A), net.address(B));
    let sent = packet(UDP, [a, b], 9, &[7; 100]);
    let came = net.send(A, &sent);
    let mut wanted = sent.clone();
    wanted[7] = 7;
    assert_eq!(came, [(B, wanted)]);
    // In the opposite direction, send a packet with extension headers that is also a fragment.
    let mut after = vec![44, 0, 1, 4, 0, 0, 0, 0, UDP, 0, 0x10, 1, 0, 0, 0, 5];
    after.extend([3; 64]);
    let sent = packet(60, [b, a], 64, &after);
    let mut wanted = sent.clone();
    wanted[7] = 62;
    assert_eq!(net.send(B, &sent), [(A, wanted)]);
}

#[test]
fn each_router_on_the_way_says_when_the_hops_are_up() {
    let mut net = net();
    let (a, b) = (net.address(A), net.address(B));
    for (hops, router) in [(1, R1), (2, R2)] {
        let sent = packet(UDP, [a, b], hops, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let (from, what, _, quoted) = net.refused(&sent);
        assert_eq!((from, what), (net.address(router), [3, 0]));
        assert_eq!(quoted[7], 1, "as it arrived");
    }
}

#[test]
fn packets_beyond_the_mtu_are_refused_with_the_mtu() {
    let mut net = net();
    let (a, b) = (net.address(A), net.address(B));
    let long = packet(UDP, [a, b], 64, &[7; 1_261]);
    let (from, what, mtu, quoted) = net.refused(&long);
    assert_eq!((from, what, mtu), (net.address(R1), [2, 0], 1_300));
    assert_eq!(quoted.len(), 1_280 - 48);
    assert_eq!(net.send(A, &packet(UDP, [a, b], 64, &[7; 1_260])).len(), 1);
}

#[test]
fn unused_ipv6_addresses_are_refused() {
    let mut net = net();
    let a = net.address(A);
    let probe = |dst| packet(UDP, [a, dst], 64, &[0; 8]);
    let (from, what, ..) = net.refused(&probe(v6("2001:db8::1")));
    assert_eq!((from, what), (net.address(R1), [1, 0]), "no such network");
    let (_, what, ..) = net.refused(&probe(v6("fd00:9::77")));
    assert_eq!(what, [1, 3], "no such station");
    let (_, what, ..) = net.refused(&probe(net.address(D)));
    assert_eq!(what, [1, 3], "no node answers there");
    let (from, what, ..) = net.refused(&probe(net.address(C)));
    assert_eq!((from, what), (net.address(C), [1, 4]), "no such port");
    // There are no errors about multicast packets, packets from the unspecified address, and
    // errors.
    for silent in [
        probe(v6("ff02::1")),
        packet(UDP, [Ipv6Addr::UNSPECIFIED, v6("2001:db8::1")], 64, &[0; 8]),
        packet(
            ICMPV6,
            [a, v6("2001:db8::1")],
            64,
            &[1, 0, 0, 0, 0, 0, 0, 0],
        ),
    ] {
        assert_eq!(net.send(A, &silent), []);
    }
}

#[test]
fn routers_and_simulated_hosts_answer_echo_requests() {
    let mut net = net();
    let a = net.address(A);
    for node in [R1, R2, C] {
        let to = net.address(node);
        let request = packet(ICMPV6, [a, to], 64, &[128, 0, 0, 0, 0, 7, 0, 9, 5, 5]);
        let came = net.send(A, &request);
        let [(A, reply)] = &came[..] else {
            panic!("one reply, not {came:?}");
        };
        assert!(is_sound(reply), "{reply:?}");
        assert_eq!(
            (&reply[8..24], &reply[24..40]),
            (&to.octets()[..], &a.octets()[..])
        );
        assert_eq!(
            [&reply[40..42], &reply[44..]].concat(),
            [129, 0, 0, 7, 0, 9, 5, 5]
        );
    }
}

fn neighbour(kind: u8, ends: [Ipv6Addr; 2], target: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, if kind == 136 { 0x60 } else { 0 }, 0, 0, 0];
    message.extend(target.octets());
    message.extend([kind - 134, 1]);
    message.extend(mac);
    packet(ICMPV6, ends, 255, &message)
}

fn framed(dst: [u8; 6], src: [u8; 6], packet: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &[0x86, 0xdd], packet].concat()
}

#[test]
fn a_router_asks_real_programs_where_they_are_and_believes_them() {
    let mut net = net();
    let (a, d, gateway) = (net.address(A), net.address(D), v6("fd00:9::1"));
    let probe = packet(UDP, [a, d], 64, &[8; 8]);
    let from = net.nodes[A];
    net.engine
        .with(|world, agenda| world.send_raw(from, &probe, agenda));
    net.engine
        .run_until(net.engine.now() + Duration::from_ms(5), u64::MAX);
    let asked = net.engine.model.take_frame(|_, frame| frame.head.to_vec());
    let asked = asked.expect("it asks with a frame");
    assert_eq!(
        asked[..6],
        [0x33, 0x33, 0xff, 0, 0, 0x12],
        "the group of its owner"
    );
    let router: [u8; 6] = asked[6..12].try_into().unwrap();
    let asks = neighbour(135, [gateway, v6("ff02::1:ff00:12")], d, router);
    assert_eq!(asked[14..], asks);

    let own = [0x52, 0x54, 0, 1, 2, 3];
    net.put(&framed(router, own, &neighbour(136, [d, gateway], d, own)));
    let (_, frames) = net.pass();
    assert_eq!(frames.len(), 1, "what had waited");
    assert_eq!(
        (&frames[0][..6], &frames[0][6..12]),
        (&own[..], &router[..])
    );
    assert_eq!(frames[0][12..14], [0x86, 0xdd]);
    assert_eq!(frames[0][14 + 40..], [8; 8]);

    // Another host claims the address.
    let liar = [0x52, 0x54, 0, 6, 6, 6];
    net.put(&framed(
        router,
        liar,
        &neighbour(136, [d, gateway], d, liar),
    ));
    net.pass();
    net.send(A, &probe);
    net.engine
        .with(|world, agenda| world.send_raw(from, &probe, agenda));
    let (_, frames) = net.pass();
    assert_eq!(frames[0][..6], liar);
}

#[test]
fn solicitations_for_nodes_of_the_model_are_answered() {
    let mut net = net();
    let (d, c) = (net.address(D), net.address(C));
    let world = &net.engine.model;
    let c_mac = world.mac(world.port_of(net.nodes[C]).unwrap());
    let own = [0x52, 0x54, 0, 1, 2, 3];
    let group = [0x33, 0x33, 0xff, 0, 0, 0x11];
    let to = v6("ff02::1:ff00:11");
    for src in [d, v6("fe80::5054:ff:fe01:203")] {
        net.put(&framed(group, own, &neighbour(135, [src, to], c, own)));
        let (_, frames) = net.pass();
        let answer = neighbour(136, [c, src], c, c_mac);
        assert_eq!(frames, [framed(own, c_mac, &answer)], "to {src}");
    }
    // A host that checks whether the address is unused is informed that it is in use. A message
    // without the option contains no MAC address.
    let asks = packet(ICMPV6, [Ipv6Addr::UNSPECIFIED, to], 255, &{
        let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
        message.extend(c.octets());
        message
    });
    net.put(&framed(group, own, &asks));
    let (_, frames) = net.pass();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][..6], [0x33, 0x33, 0, 0, 0, 1], "all nodes");
    assert_eq!(
        frames[0][14 + 44],
        0x20,
        "the solicitation had no source address"
    );
    // The message is invalid if it has passed a router, or if its checksum is wrong.
    let mut far = neighbour(135, [d, to], c, own);
    far[7] = 254;
    let mut wrong = neighbour(135, [d, to], c, own);
    wrong[60] ^= 1;
    for bytes in [far, wrong] {
        net.put(&framed(group, own, &bytes));
        assert_eq!(net.pass().1, Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_network_that_cannot_be_is_refused() {
    let with = |change: &dyn Fn(&mut NetworkBuilder, [timeloom_net::PortId; 2])| {
        let mut network = NetworkBuilder::new(1);
        let (a, r, b) = (network.host("a"), network.router("r"), network.host("b"));
        let link = bare(GBIT, Duration::from_us(1), 10);
        let (at_a, _) = network.connect(a, r, link.clone());
        let (_, at_b) = network.connect(r, b, link.clone().with_mtu(1_000));
        change(&mut network, [at_a, at_b]);
        network.build().map(drop)
    };
    let name = |node: &str| node.to_owned();
    assert_eq!(with(&|_, _| ()), Ok(()));
    assert_eq!(
        with(&|network, [a, _]| network.set_address(a, v6("fd00::2"), 64)),
        Err(BuildError::BadMtuOfV6(name("r"), name("b")))
    );
    let mut network = NetworkBuilder::new(1);
    let (a, r, b) = (network.host("a"), network.router("r"), network.host("b"));
    let link = bare(GBIT, Duration::from_us(1), 10);
    let (at_a, _) = network.connect(a, r, link.clone());
    let (_, at_b) = network.connect(r, b, link);
    network.set_address(at_a, v6("fd00::2"), 64);
    network.set_address(at_b, v6("fd00::3"), 64);
    let refused = network.build().map(drop);
    assert_eq!(refused, Err(BuildError::SplitNetwork(name("a"), name("b"))));
    let same: IpAddr = v6("fd00::2").into();
    let conflict = BuildError::AddressConflict(same, name("a"), name("b"));
    assert_eq!(conflict.to_string(), "`a` and `b` both have fd00::2");
}
