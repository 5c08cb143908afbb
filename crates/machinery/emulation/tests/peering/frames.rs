//! Tests that frames of real programs cross a cut unchanged, whatever their content and sender.

use std::net::Ipv4Addr;

use timeloom_emulation::peering::Cut;
use timeloom_engine::Engine;
use timeloom_net::{
    Checksum, Frame, LARGE, LinkConfig, NetworkBuilder, Node, OffloadedWork, World,
};
use timeloom_time::{Duration, Instant, Virtual};

/// A frame that came out: node, instant and bytes, and the place of a checksum that is open.
type Out = (Node, Instant<Virtual>, Vec<u8>, Option<(u16, u16)>);

/// Creates hosts a and b at two switches with 1 ms between them, and a modelled host at b's switch.
fn lan() -> (World, Node, Node) {
    let mut network = NetworkBuilder::new(3);
    let quick = LinkConfig::new(1_000_000_000, Duration::ZERO);
    let long = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
    let (left, right) = (network.switch("left"), network.switch("right"));
    network.connect(left, right, long);
    for (number, (name, switch)) in [("a", left), ("b", right), ("model", right)]
        .into_iter()
        .enumerate()
    {
        let host = network.host(name);
        let (port, _) = network.connect(host, switch, quick.clone());
        network.set_address(port, Ipv4Addr::new(10, 0, 0, 1 + number as u8), 24);
    }
    let mut world = network.build().unwrap();
    let (a, b) = (Node(2), Node(3));
    assert_eq!((world.name(a), world.name(b)), ("a", "b"));
    world.open_frames(a);
    world.open_frames(b);
    (world, a, b)
}

fn put(engine: &mut Engine<World>, node: Node, frame: &[u8], offload: OffloadedWork) {
    let mut buffer = frame.to_vec();
    buffer.resize(LARGE, 0);
    engine.with(|world, agenda| {
        world.send_frame(node, &mut buffer, frame.len(), offload, agenda);
    });
}

fn take(engine: &mut Engine<World>, out: &mut Vec<Out>) {
    let own = |node, frame: Frame<'_>| {
        let open = frame.offload.checksum.map(|it| (it.start, it.offset));
        (node, frame.at, [frame.head, frame.rest].concat(), open)
    };
    out.extend(std::iter::from_fn(|| engine.model.take_frame(own)));
}

/// Returns the frames that leave the network after `frames` were put in, with one engine or two.
fn run(frames: &[(Node, Vec<u8>)], engines: usize) -> Vec<Out> {
    run_with(frames, OffloadedWork::default(), engines)
}

/// Does the same with frames that leave this to the network card.
fn run_with(frames: &[(Node, Vec<u8>)], offload: OffloadedWork, engines: usize) -> Vec<Out> {
    let owners = |world: &World| -> Vec<u16> {
        let names = (0..world.nodes() as u32).map(|node| world.name(Node(node)).to_owned());
        let left = ["left", "a"];
        let side = |name: String| u16::from(engines == 2 && !left.contains(&&*name));
        names.map(side).collect()
    };
    let mut all: Vec<Engine<World>> = (0..engines)
        .map(|here| {
            let (mut world, ..) = lan();
            let cut = Cut::new(&world, owners(&world)).unwrap();
            cut.apply(&mut world, here as u16);
            Engine::new(world)
        })
        .collect();
    let owners = owners(&all[0].model);
    for (node, frame) in frames {
        let engine = &mut all[usize::from(owners[node.0 as usize])];
        put(engine, *node, frame, offload);
    }
    let mut out = Vec::new();
    // Each window is as long as the delay of the cut cable, so that no frame is late.
    for window in 1..=20 {
        let end = Instant::ZERO + Duration::from_ms(window);
        for engine in &mut all {
            engine.run_until(end - Duration::from_ns(1), u64::MAX);
            take(engine, &mut out);
        }
        for here in 0..engines {
            let crossings = all[here].model.crossings();
            let packets = std::mem::take(&mut crossings.packets);
            let bytes = std::mem::take(&mut crossings.bytes);
            let mut rest = &bytes[..];
            for packet in packets {
                let is_real = packet.kind == timeloom_net::PacketKind::Raw;
                let length = if is_real { packet.size.into() } else { 0 };
                let (bytes, after) = rest.split_at(length);
                rest = after;
                let late =
                    all[1 - here].with(|world, agenda| world.take_over(&packet, bytes, agenda));
                assert_eq!(late, Some(Duration::ZERO), "{packet:?}");
            }
        }
    }
    out
}

const STRANGER: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];

fn ethernet(dst: [u8; 6], src: [u8; 6], kind: u16, rest: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &kind.to_be_bytes(), rest].concat()
}

/// Returns an ARP request for `target` from a sender that no engine knows.
fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, 1];
    message.extend(STRANGER);
    message.extend([10, 0, 0, 77]);
    message.extend([0; 6]);
    message.extend(target);
    ethernet([0xff; 6], STRANGER, 0x0806, &message)
}

#[test]
fn frames_of_any_kind_cross_a_cut_as_they_are() {
    let (_, a, b) = lan();
    let ptp = ethernet([1, 0x1b, 0x19, 0, 0, 0], STRANGER, 0x88f7, &[7; 44]);
    // The packet has 20 bytes of payload and is for all nodes.
    let mut packet = vec![0x60, 0, 0, 0, 0, 20, 17, 1];
    packet.extend(
        [
            &[0xfe, 0x80][..],
            &[0; 13],
            &[7],
            &[0xff, 2],
            &[0; 13],
            &[1],
        ]
        .concat(),
    );
    packet.extend([5; 20]);
    let ipv6 = ethernet([0x33, 0x33, 0, 0, 0, 1], STRANGER, 0x86dd, &packet);
    let back = ethernet(STRANGER, [0x52, 0x54, 0, 9, 9, 9], 0x88b5, &[9; 46]);
    let frames = [(a, ptp.clone()), (a, ipv6.clone()), (b, back.clone())];
    let whole = run(&frames, 1);
    let bytes = |node: Node| -> Vec<&[u8]> {
        let of = whole.iter().filter(|(at, ..)| *at == node);
        of.map(|(_, _, bytes, _)| &bytes[..]).collect()
    };
    assert_eq!(bytes(b), [&ptp[..], &ipv6], "in one engine");
    assert_eq!(bytes(a), [&back[..]]);
    assert_eq!(sorted(run(&frames, 2)), sorted(whole), "and in two");
}

/// The model sends the reply to an address that only one of the engines has seen.
#[test]
fn a_stranger_is_answered_across_a_cut() {
    let (_, a, _) = lan();
    let frames = [(a, arp([10, 0, 0, 3]))];
    let whole = run(&frames, 1);
    let replies = whole.iter().filter(|(node, ..)| *node == a).count();
    assert_eq!(replies, 1, "{whole:?}");
    assert_eq!(sorted(run(&frames, 2)), sorted(whole));
}

/// A kernel that receives a segment behaves a little differently if its checksum is complete.
#[test]
fn a_checksum_that_a_kernel_left_open_is_open_behind_a_cut() {
    let (world, a, b) = lan();
    let mac = |node| world.mac(world.port_of(node).unwrap());
    let segment = |kind: u16, mut ip: Vec<u8>, tcp: [u8; 23]| {
        ip.extend(tcp);
        ethernet(mac(b), mac(a), kind, &ip)
    };
    let mut tcp = [7; 23];
    tcp[12] = 5 << 4;
    let mut v4 = vec![0x45, 0, 0, 43, 0, 1, 0x40, 0, 64, 6, 0x26, 0xca];
    v4.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    // The sum over 10.0.0.1, 10.0.0.2, the protocol and the length.
    tcp[16..18].copy_from_slice(&(0x0a00 + 1 + 0x0a00 + 2 + 6 + 23u16).to_be_bytes());
    let v4 = segment(0x0800, v4, tcp);
    let mut v6 = vec![0x60, 0, 0, 0, 0, 23, 6, 64];
    v6.extend([[0xfd; 16], [0xfd; 16]].concat());
    // Sixteen words 0xfdfd, the protocol and the length, folded.
    let sum = 16 * 0xfdfd + 6 + 23u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    tcp[16..18].copy_from_slice(&(sum as u16).to_be_bytes());
    let v6 = segment(0x86dd, v6, tcp);
    for (frame, start) in [(v4, 34), (v6, 54)] {
        let offload = OffloadedWork {
            train: None,
            checksum: Some(Checksum { start, offset: 16 }),
        };
        let frames = [(a, frame.clone())];
        let whole = run_with(&frames, offload, 1);
        assert_eq!(whole.len(), 1);
        assert_eq!((&whole[0].2, whole[0].3), (&frame, Some((start, 16))));
        assert_eq!(run_with(&frames, offload, 2), whole);
    }
}

fn sorted(mut out: Vec<Out>) -> Vec<Out> {
    out.sort();
    out
}
