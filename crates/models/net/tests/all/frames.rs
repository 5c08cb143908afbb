//! Ethernet frames of real programs: trains of segments, ARP, switches.

use std::net::Ipv4Addr;

use crate::common::{GBIT, MBIT, bare, ms};
use timeloom_engine::{Engine, Random};
use timeloom_net::{
    Checksum, Frame, Impairment, LARGE, LinkConfig, NetworkBuilder, Node, OffloadedWork, Train,
    TrainProtocol, World,
};
use timeloom_time::{Duration, Instant, Virtual};

const MSS: usize = 1_448;
/// Length of an IP and a TCP header with the timestamps option, in bytes.
const HEADERS: usize = 52;

/// A received frame with its bytes.
#[derive(Clone, Debug, PartialEq)]
struct Out {
    node: Node,
    at: Instant<Virtual>,
    bytes: Vec<u8>,
    offload: OffloadedWork,
}

fn take_all(engine: &mut Engine<World>) -> Vec<Out> {
    let own = |node, frame: Frame<'_>| Out {
        node,
        at: frame.at,
        bytes: [frame.head, frame.rest].concat(),
        offload: frame.offload,
    };
    std::iter::from_fn(|| engine.model.take_frame(own)).collect()
}

fn put(engine: &mut Engine<World>, node: Node, frame: &[u8], offload: OffloadedWork) {
    let mut buffer = frame.to_vec();
    buffer.resize(LARGE, 0);
    engine.with(|world, agenda| {
        world.send_frame(node, &mut buffer, frame.len(), offload, agenda);
    });
    assert_eq!(buffer.len(), LARGE, "what comes back can be read into");
}

fn ethernet(dst: [u8; 6], src: [u8; 6], kind: u16) -> Vec<u8> {
    [&dst[..], &src, &kind.to_be_bytes()].concat()
}

/// Returns a TCP frame with this payload and an incomplete checksum.
fn tcp(macs: [[u8; 6]; 2], ips: [Ipv4Addr; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(macs[1], macs[0], 0x0800);
    let length = (HEADERS + payload.len()) as u16;
    frame.extend([0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0]);
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame.extend(ips[0].octets());
    frame.extend(ips[1].octets());
    frame.extend([0x13, 0x88, 0x13, 0x89]);
    frame.extend(0xffff_f000u32.to_be_bytes()); // the numbers wrap past zero
    frame.extend([0, 0, 0, 1, 0x80, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend([1; 12]);
    frame.extend(payload);
    frame
}

fn train() -> OffloadedWork {
    OffloadedWork {
        train: Some(Train {
            protocol: TrainProtocol::Tcp,
            payload_bytes: MSS as u16,
        }),
        checksum: Some(Checksum {
            start: 34,
            offset: 16,
        }),
    }
}

fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed, 0);
    (0..length).map(|_| random.bits() as u8).collect()
}

/// Returns two hosts open to frames with a router between them; the second link is `second`.
fn routed(second: LinkConfig) -> (Engine<World>, [Node; 2]) {
    let mut network = NetworkBuilder::new(7);
    let (a, r, b) = (network.host("a"), network.router("r"), network.host("b"));
    network.connect(a, r, bare(1_000 * GBIT, Duration::ZERO, 100_000));
    network.connect(r, b, second);
    let mut world = network.build().unwrap();
    world.open_frames(a);
    world.open_frames(b);
    (Engine::new(world), [a, b])
}

fn between(engine: &Engine<World>, [a, b]: [Node; 2]) -> ([[u8; 6]; 2], [Ipv4Addr; 2]) {
    let world = &engine.model;
    let [at_a, at_b] = [a, b].map(|node| world.port_of(node).unwrap());
    // The next hop is the router at the far end of the cable.
    let macs = [world.mac(at_a), world.mac(at_a.peer())];
    (macs, [world.address(at_a), world.address(at_b)])
}

/// Sends a train of TCP segments from the first of `ends` to the second.
fn put_train(engine: &mut Engine<World>, ends: [Node; 2], flags: u8, payload: &[u8]) {
    let (macs, ips) = between(engine, ends);
    put(engine, ends[0], &tcp(macs, ips, flags, payload), train());
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words.fold(0, |sum, word| {
        let sum = sum + (u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        (sum >> 16) + (sum & 0xffff)
    })
}

/// Checks the headers of a part of a train; returns its offset in the train and its payload.
fn part(out: &Out, macs: [[u8; 6]; 2]) -> (usize, Vec<u8>) {
    let bytes = &out.bytes;
    assert_eq!(bytes[..6], macs[1]);
    assert_eq!(bytes[6..12], macs[0]);
    assert_eq!(usize::from(be16(bytes, 16)), bytes.len() - 14);
    assert_eq!(sum(&bytes[14..34]), 0xffff, "the IP checksum");
    assert_eq!(bytes[22], 63, "one router was passed");
    let sequence = u32::from_be_bytes(bytes[38..42].try_into().unwrap());
    let offset = sequence.wrapping_sub(0xffff_f000) as usize;
    assert_eq!(usize::from(be16(bytes, 18)), 0x1234 + offset / MSS);
    // The incomplete checksum contains the sum over the pseudo header.
    let length = bytes.len() as u32 - 34;
    let pseudo = sum(&bytes[26..34]) + 6 + length;
    assert_eq!(
        u32::from(be16(bytes, 50)),
        (pseudo >> 16) + (pseudo & 0xffff)
    );
    assert_eq!(out.offload.checksum, train().checksum);
    (offset, bytes[14 + HEADERS..].to_vec())
}

#[test]
fn a_train_stays_whole_on_fast_links() {
    let link = LinkConfig::new(10 * GBIT, Duration::from_ms(1));
    let (mut engine, ends) = routed(link);
    let payload = random_bytes(40 * MSS, 1);
    put_train(&mut engine, ends, 0x19, &payload);
    engine.run_until(ms(10), u64::MAX);
    let out = take_all(&mut engine);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].offload, train());
    let port = engine.model.port_of(ends[1]).unwrap();
    let last_macs = [engine.model.mac(port.peer()), engine.model.mac(port)];
    assert_eq!(part(&out[0], last_macs), (0, payload));
    assert_eq!(out[0].bytes[47], 0x19, "FIN, PSH and ACK stay");
    // On the wire the train takes as long as 40 packets with their headers and gaps.
    let wire_bytes = 40 * (MSS + HEADERS + 38) as i64;
    let first_link = Duration::from_ns(wire_bytes * 8 / 1_000 - 40 * 38 * 8 / 1_000);
    let expected = Duration::from_ns((wire_bytes * 8).div_euclid(10) + 1_000_000);
    let error = out[0].at - Instant::ZERO - first_link - expected;
    assert!(error.as_ns().abs() <= 2, "{error:?}");
    assert_eq!(engine.model.link(port.peer()).packets, 40);
    assert_eq!(engine.model.packets_alive(), 0);
}

#[test]
fn a_slow_link_gets_it_in_parts_that_make_the_whole() {
    for (rate, longest) in [(GBIT, 4), (100 * MBIT, 1)] {
        let (mut engine, ends) = routed(LinkConfig::new(rate, Duration::from_ms(1)));
        let payload = random_bytes(44 * MSS + 17, rate);
        put_train(&mut engine, ends, 0x99, &payload);
        engine.run_until(ms(100), u64::MAX);
        let out = take_all(&mut engine);
        let port = engine.model.port_of(ends[1]).unwrap();
        let last_macs = [engine.model.mac(port.peer()), engine.model.mac(port)];
        let mut whole = Vec::new();
        for (index, piece) in out.iter().enumerate() {
            let (offset, bytes) = part(piece, last_macs);
            assert_eq!(offset, whole.len());
            let segments = bytes.len().div_ceil(MSS);
            assert!(segments <= longest, "{segments} segments as one");
            assert_eq!(piece.offload.train.is_some(), segments > 1);
            whole.extend(bytes);
            // CWR is in the first segment only; FIN and PSH are in the last only.
            let flags = [
                0x10,
                0x80 * u8::from(index == 0),
                0x09 * u8::from(index + 1 == out.len()),
            ];
            assert_eq!(piece.bytes[47], flags.iter().sum::<u8>(), "part {index}");
        }
        assert_eq!(whole, payload);
        // The last bit leaves at the same instant as if the segments were sent one by one.
        let bits = (payload.len() + 45 * (HEADERS + 38)) as i64 * 8;
        let sending = Duration::from_ns(bits * 1_000 / (rate / MBIT) as i64);
        let late = out.last().unwrap().at - (ms(1) + sending);
        assert!((0..1_000).contains(&late.as_ns()), "{late:?}");
        assert_eq!(engine.model.packets_alive(), 0);
    }
}

#[test]
fn a_queue_takes_the_part_that_it_has_room_for() {
    // The queue admits one packet in transmission and eight waiting ones. The train is divided into
    // single packets, and into parts of five segments, of which the second does not fit.
    for rate in [10 * MBIT, GBIT] {
        let (mut engine, ends) = routed(bare(rate, Duration::ZERO, 8));
        let payload = random_bytes(25 * MSS, 3);
        put_train(&mut engine, ends, 0x10, &payload);
        engine.run_until(ms(1_000), u64::MAX);
        let out = take_all(&mut engine);
        let got: usize = out.iter().map(|out| out.bytes.len() - 14 - HEADERS).sum();
        assert_eq!(got, 9 * MSS);
        let port = engine.model.port_of(ends[1]).unwrap().peer();
        let stats = engine.model.link(port);
        assert_eq!((stats.packets, stats.dropped), (9, 16));
    }
}

#[test]
fn chance_decides_about_each_segment() {
    let impairment = Impairment::loss(0.3);
    let link = LinkConfig::new(10 * GBIT, Duration::ZERO).with_impairment(impairment);
    let (mut engine, ends) = routed(link);
    let payload = random_bytes(45 * MSS, 4);
    for _ in 0..20 {
        put_train(&mut engine, ends, 0x10, &payload);
    }
    engine.run_until(ms(1_000), u64::MAX);
    let out = take_all(&mut engine);
    assert!(out.iter().all(|out| out.bytes.len() == 14 + HEADERS + MSS));
    let port = engine.model.port_of(ends[1]).unwrap().peer();
    assert_eq!(engine.model.link(port).lost as usize + out.len(), 900);
    assert!((560..700).contains(&out.len()), "{} of 900", out.len());
}

#[test]
fn a_node_opened_for_packets_gets_trains_packet_by_packet() {
    let (mut engine, ends) = routed(LinkConfig::new(10 * GBIT, Duration::ZERO));
    engine.model.open(ends[1]);
    let payload = random_bytes(10 * MSS - 5, 5);
    put_train(&mut engine, ends, 0x10, &payload);
    engine.run_until(ms(10), u64::MAX);
    let mut whole: Vec<u8> = Vec::new();
    while let Some(packet) = engine.model.take_raw(|_, _, bytes| bytes.to_vec()) {
        let length = packet.len() as u32 - 20;
        let pseudo = sum(&packet[12..20]) + 6 + length;
        let pseudo = (pseudo >> 16) + (pseudo & 0xffff);
        let whole_sum = sum(&packet[20..]) + pseudo;
        assert_eq!(
            (whole_sum >> 16) + (whole_sum & 0xffff),
            0xffff,
            "the TCP checksum"
        );
        whole.extend(&packet[HEADERS..]);
    }
    assert_eq!(whole, payload);
}

fn arp(request: bool, sender: ([u8; 6], Ipv4Addr), target: ([u8; 6], Ipv4Addr)) -> Vec<u8> {
    let dst = if request { [0xff; 6] } else { target.0 };
    let mut frame = ethernet(dst, sender.0, 0x0806);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 2 - u8::from(request)]);
    frame.extend(sender.0);
    frame.extend(sender.1.octets());
    frame.extend(if request { [0; 6] } else { target.0 });
    frame.extend(target.1.octets());
    frame
}

/// Returns three hosts open to frames and a simulated host around a switch, and a router with
/// another simulated host behind it.
fn lan() -> (Engine<World>, [Node; 5]) {
    let mut network = NetworkBuilder::new(7);
    let switch = network.switch("s");
    let link = LinkConfig::new(GBIT, Duration::from_us(10));
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| network.host(name));
    for host in [a, b, c, d] {
        network.connect(host, switch, link.clone());
    }
    let router = network.router("r");
    network.connect(router, switch, link.clone());
    let far = network.host("far");
    network.connect(router, far, link);
    let mut world = network.build().unwrap();
    for host in [a, b, c] {
        world.open_frames(host);
    }
    (Engine::new(world), [a, b, c, d, far])
}

fn whois(engine: &Engine<World>, node: Node) -> ([u8; 6], Ipv4Addr) {
    let port = engine.model.port_of(node).unwrap();
    (engine.model.mac(port), engine.model.address(port))
}

#[test]
fn all_stations_of_a_lan_answer_arp() {
    let (mut engine, [a, b, c, d, _]) = lan();
    let me = whois(&engine, a);
    let gateway = engine.model.gateway(a).unwrap();
    let (simulated_mac, simulated) = whois(&engine, d);
    for (asked, mac) in [(simulated, Some(simulated_mac)), (gateway, None)] {
        let start = engine.now();
        put(
            &mut engine,
            a,
            &arp(true, me, ([0; 6], asked)),
            OffloadedWork::default(),
        );
        engine.run_until(start + Duration::from_ms(5), u64::MAX);
        let out = take_all(&mut engine);
        let heard: Vec<Node> = out.iter().map(|out| out.node).collect();
        assert!(
            heard.contains(&b) && heard.contains(&c),
            "all hear a broadcast"
        );
        let answer = out.iter().find(|out| out.node == a).expect("an answer");
        assert_eq!(answer.bytes[..6], me.0);
        assert_eq!(answer.bytes[20..22], [0, 2]);
        assert_eq!(answer.bytes[28..32], asked.octets());
        assert_eq!(answer.bytes[38..42], me.1.octets());
        if let Some(mac) = mac {
            assert_eq!(answer.bytes[22..28], mac);
        }
    }
}

/// The model itself answers for routers and simulated hosts. A solicitation that it has answered is
/// not repeated in place of a host's kernel; one without an answer is.
#[test]
fn answers_of_the_model_end_the_questions_of_a_host_whose_timers_are_kept() {
    let (mut engine, [a, b, _, d, _]) = lan();
    engine.model.keep_tcp_timers(a, Duration::from_ms(4));
    let me = whois(&engine, a);
    let gateway = engine.model.gateway(a).unwrap();
    let simulated = whois(&engine, d).1;
    let nowhere = Ipv4Addr::from_bits(gateway.to_bits() ^ 0x80);
    for (asked, times, unresolved) in [(gateway, 1, 0), (simulated, 1, 0), (nowhere, 3, 1)] {
        let start = engine.now();
        let question = arp(true, me, ([0; 6], asked));
        put(&mut engine, a, &question, OffloadedWork::default());
        engine.run_until(start + Duration::from_s(5), u64::MAX);
        let out = take_all(&mut engine);
        let heard = out
            .iter()
            .filter(|out| out.node == b && out.bytes[20..22] == [0, 1]);
        assert_eq!(heard.count(), times, "{asked}");
        let stats = engine.model.tcp_timer_stats(a, engine.now()).unwrap();
        assert_eq!(stats.unresolved, unresolved, "{asked}");
    }
}

/// TCP segments behind VLAN tags, as fragments or in other IP packets have no timers.
#[test]
fn segments_that_the_timers_do_not_parse_are_counted() {
    let (mut engine, [a, b, ..]) = lan();
    engine.model.keep_tcp_timers(a, Duration::from_ms(4));
    let (me, peer) = (whois(&engine, a), whois(&engine, b));
    let ip = |protocol: u8, flags: u8, content: &[u8]| {
        let length = 20 + content.len() as u8;
        let mut packet = vec![0x45, 0, 0, length, 0, 1, flags, 0, 64, protocol, 0, 0];
        packet.extend(me.1.octets());
        packet.extend(peer.1.octets());
        packet.extend(content);
        packet
    };
    let mut segment = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 1, 0];
    segment.extend([0; 4]);
    let (plain, datagram) = (ip(6, 0x40, &segment), ip(17, 0x40, &segment));
    let tagged = |packet: &[u8]| [&[0, 5, 8, 0], packet].concat();
    let twice = [&[0, 7, 0x81, 0], &tagged(&plain)[..]].concat();
    let mut forwarded = ip(6, 0x20, &segment);
    forwarded[12..16].copy_from_slice(&peer.1.octets());
    let cases = [
        (0x0800, forwarded, 0),
        (0x0800, plain.clone(), 0),
        (0x0800, ip(6, 0x20, &segment), 1),
        (0x8100, tagged(&plain), 1),
        (0x8100, tagged(&datagram), 0),
        (0x88a8, twice, 1),
        (0x0800, ip(4, 0x40, &plain), 1),
        (0x0800, ip(4, 0x40, &datagram), 0),
        (0x0800, ip(47, 0x40, &segment), 1),
        (0x0800, ip(50, 0x40, &segment), 1),
    ];
    for (number, (ethertype, packet, hidden)) in cases.into_iter().enumerate() {
        let stats = |engine: &Engine<World>| {
            let stats = engine.model.tcp_timer_stats(a, engine.now());
            stats.expect("they are kept").hidden
        };
        let before = stats(&engine);
        let frame = [&ethernet(peer.0, me.0, ethertype)[..], &packet].concat();
        put(&mut engine, a, &frame, OffloadedWork::default());
        assert_eq!(stats(&engine) - before, hidden, "case {number}");
    }
}

/// Returns an ICMP echo request as a frame.
fn echo(from: ([u8; 6], Ipv4Addr), to: ([u8; 6], Ipv4Addr)) -> Vec<u8> {
    let mut frame = ethernet(to.0, from.0, 0x0800);
    frame.extend([0x45, 0, 0, 36, 0, 1, 0, 0, 64, 1, 0, 0]);
    frame.extend(from.1.octets());
    frame.extend(to.1.octets());
    frame.extend([8, 0, 0, 0, 0, 7, 0, 9]);
    frame.extend([5; 8]);
    frame
}

#[test]
fn routers_ask_real_programs_for_their_address_and_believe_liars() {
    let (mut engine, [a, _, c, _, far]) = lan();
    let (me, liar) = (whois(&engine, a), whois(&engine, c));
    let target = whois(&engine, far).1;
    let gateway = engine.model.gateway(a).unwrap();
    // The host learns the gateway's MAC address as a kernel does.
    put(
        &mut engine,
        a,
        &arp(true, me, ([0; 6], gateway)),
        OffloadedWork::default(),
    );
    engine.run_until(ms(5), u64::MAX);
    let heard = take_all(&mut engine);
    let answer = heard.iter().find(|out| out.node == a).unwrap();
    let router: [u8; 6] = answer.bytes[22..28].try_into().unwrap();
    put(
        &mut engine,
        a,
        &echo(me, (router, target)),
        OffloadedWork::default(),
    );
    engine.run_until(ms(10), u64::MAX);
    let reply = take_all(&mut engine);
    assert_eq!(reply.len(), 1, "{reply:?}");
    assert_eq!(reply[0].node, a);
    assert_eq!(reply[0].bytes[34], 0, "an echo reply");
    // An attacking host tells the router that it has the address of another host.
    let lie = arp(false, (liar.0, me.1), (router, gateway));
    put(&mut engine, c, &lie, OffloadedWork::default());
    engine.run_until(ms(11), u64::MAX);
    put(
        &mut engine,
        a,
        &echo(me, (router, target)),
        OffloadedWork::default(),
    );
    engine.run_until(ms(20), u64::MAX);
    let out = take_all(&mut engine);
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(out[0].node, c, "the reply goes to the liar");
    assert_eq!(out[0].bytes[30..34], me.1.octets());
}

#[test]
fn a_router_that_does_not_know_asks_with_a_real_frame() {
    let (mut engine, [a, _, _, _, far]) = lan();
    let me = whois(&engine, a);
    // No host has sent anything yet; an echo request arrives from behind the router.
    let (_, outside) = whois(&engine, far);
    let request = echo(([0; 6], outside), ([0; 6], me.1));
    engine.with(|world, agenda| world.send_raw(far, &request[14..], agenda));
    engine.run_until(ms(5), u64::MAX);
    let out = take_all(&mut engine);
    let question = out.iter().find(|out| out.node == a).expect("a question");
    assert_eq!(question.bytes[..6], [0xff; 6]);
    assert_eq!(question.bytes[38..42], me.1.octets());
    let router: [u8; 6] = question.bytes[22..28].try_into().unwrap();
    let gateway = engine.model.gateway(a).unwrap();
    assert_eq!(question.bytes[28..32], gateway.octets());
    let answer = arp(false, me, (router, gateway));
    put(&mut engine, a, &answer, OffloadedWork::default());
    engine.run_until(ms(10), u64::MAX);
    let out = take_all(&mut engine);
    assert_eq!(out.len(), 1, "what had waited comes");
    assert_eq!((out[0].node, out[0].bytes[34]), (a, 8));
}

#[test]
fn watched_links_show_passed_frames() {
    let (mut engine, [a, _, _, d, _]) = lan();
    let (me, to) = (whois(&engine, a), whois(&engine, d));
    let port = engine.model.port_of(d).unwrap();
    engine.model.watch(port.peer());
    engine.model.watch(port);
    put(
        &mut engine,
        a,
        &arp(true, me, ([0; 6], to.1)),
        OffloadedWork::default(),
    );
    engine.run_until(ms(2), u64::MAX);
    put(&mut engine, a, &echo(me, to), OffloadedWork::default());
    engine.run_until(ms(5), u64::MAX);
    let mut seen = Vec::new();
    while let Some(frame) = engine
        .model
        .take_captured(|port, frame| (port, frame.at, frame.head[12..14].to_vec()))
    {
        seen.push(frame);
    }
    // Three packets have bytes: the solicitation, the request and the reply. Messages of the model
    // have none.
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0].0, port.peer());
    assert_eq!(seen[2].0, port);
    assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

/// No input of a guest makes the model panic, and every packet that is lost is counted.
#[test]
fn anything_may_come_from_a_guest() {
    let (mut engine, [a, b, ..]) = lan();
    let (me, to) = (whois(&engine, a), whois(&engine, b));
    let seed = 11;
    let mut random = Random::new(seed, 0);
    let good = tcp([me.0, to.0], [me.1, to.1], 0x10, &random_bytes(3 * MSS, 1));
    let samples = [good, arp(true, me, to), echo(me, to)];
    for turn in 0..20_000 {
        let mut frame = samples[random.below(3) as usize].clone();
        for _ in 0..random.below(4) {
            let at = random.below(frame.len().min(60) as u64) as usize;
            frame[at] = random.bits() as u8;
        }
        frame.truncate(random.below(frame.len() as u64 + 1) as usize);
        let wild = |random: &mut Random| random.below(80) as u16;
        let offload = OffloadedWork {
            train: (random.below(2) == 0).then(|| Train {
                protocol: if random.below(2) == 0 {
                    TrainProtocol::Tcp
                } else {
                    TrainProtocol::Udp
                },
                payload_bytes: random.below(3_000) as u16,
            }),
            checksum: (random.below(2) == 0).then(|| Checksum {
                start: wild(&mut random),
                offset: wild(&mut random),
            }),
        };
        put(&mut engine, a, &frame, offload);
        if turn % 16 == 0 {
            engine.run_until(engine.now() + Duration::from_ms(1), u64::MAX);
            take_all(&mut engine);
        }
    }
    engine.run_until(engine.now() + Duration::from_s(10), u64::MAX);
    take_all(&mut engine);
    assert_eq!(engine.model.packets_alive(), 0, "seed {seed}");
    assert!(engine.model.counters().malformed > 1_000, "seed {seed}");
}

/// A failed link loses a train of four segments. The last one is sent again as a probe, the first
/// one after a timeout, each as one frame with correct checksums.
#[test]
fn lost_segments_are_retransmitted_for_a_host_with_kept_timers() {
    let (mut engine, ends) = routed(bare(GBIT, Duration::from_ms(10), 1_000));
    engine.model.keep_tcp_timers(ends[0], Duration::from_ms(4));
    let out = engine.model.port_of(ends[0]).unwrap();
    engine.model.set_reachable(out, false);
    let payload = random_bytes(4 * MSS, 1);
    put_train(&mut engine, ends, 0x18, &payload);
    engine.run_until(ms(500), u64::MAX);
    assert_eq!(take_all(&mut engine), []);
    engine.model.set_reachable(out, true);
    for (until_ms, segment) in [(1_100, 3), (2_200, 0)] {
        engine.run_until(ms(until_ms), u64::MAX);
        let [again] = &take_all(&mut engine)[..] else {
            panic!("one frame until {until_ms} ms");
        };
        let sequence = u32::from_be_bytes(again.bytes[38..42].try_into().unwrap());
        let offset = sequence.wrapping_sub(0xffff_f000) as usize;
        assert_eq!(offset, segment * MSS);
        assert_eq!(again.bytes[14 + HEADERS..], payload[offset..offset + MSS]);
        assert_eq!(again.offload, OffloadedWork::default());
        let length = again.bytes.len() as u32 - 34;
        let pseudo = sum(&again.bytes[26..34]) + 6 + length;
        let whole = pseudo + sum(&again.bytes[34..]);
        assert_eq!(
            (whole >> 16) + (whole & 0xffff),
            0xffff,
            "the checksum of TCP"
        );
    }
    let stats = engine.model.tcp_timer_stats(ends[0], engine.now()).unwrap();
    assert_eq!((stats.segments, stats.probes, stats.timeouts), (4, 1, 1));
}
