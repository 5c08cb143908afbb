//! Untrusted input of simulated networks: frames of real programs, files with graphs, and datagrams
//! of other engines.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use timeloom_emulation::peering::codec::Statics;
use timeloom_emulation::peering::datagram::{DatagramBody, DatagramHeader, DatagramReader, Key};
use timeloom_emulation::peering::exact::PacketBatch;
use timeloom_emulation::peering::message::Messages;
use timeloom_emulation::peering::peer::{Peer, PeerConfig};
use timeloom_engine::Engine;
use timeloom_net::topology::{dumbbell, gml, graphml};
use timeloom_net::{
    Checksum, LARGE, LinkConfig, NetworkBuilder, OffloadedWork, PacketSize, Pattern, QueueConfig,
    TcpConfig, TrafficConfig, Train, TrainProtocol, World,
};
use timeloom_time::{Duration, Instant};

/// Tests frames that a hostile program sends at a host's port of a simulated network, with
/// arbitrary offload information. Each packet must leave the network, or be dropped and counted;
/// none may stay for ever.
///
/// Input: frames, each with two bytes for the length, one for the offload flags, and two for the
/// payload of a segment.
pub(crate) fn frame(input: &[u8]) {
    let mut network = NetworkBuilder::new(1);
    let [a, b, silent, far] = ["a", "b", "silent", "far"].map(|name| network.host(name));
    let (switch, router) = (network.switch("s"), network.router("r"));
    let link = LinkConfig::new(1_000_000_000, Duration::from_us(1));
    let codel = QueueConfig::CoDel {
        target: Duration::from_ms(5),
        interval: Duration::from_ms(100),
        packets: 8,
        ecn: true,
    };
    network.connect(a, switch, link.clone());
    network.connect(
        b,
        switch,
        link.clone()
            .with_queue(QueueConfig::DropTail { packets: 4 }),
    );
    network.connect(silent, switch, link.clone());
    network.connect(switch, router, link.clone());
    // If one host has an IPv6 address, all hosts of the model have one.
    let (beyond, _) = network.connect(router, far, link.with_queue(codel));
    network.set_address(beyond, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), 64);
    let mut world = network.build().expect("a sound network");
    world.open_frames(a);
    world.open_frames(b);
    world.open(far);
    let mut engine: Engine<World> = Engine::new(world);
    let mut buffer = vec![0; LARGE];
    let mut rest = input;
    while let [high, low, claims, payload_high, payload_low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (frame, after) = after.split_at(length);
        rest = after;
        buffer.resize(LARGE, 0);
        buffer[..length].copy_from_slice(frame);
        let offload = OffloadedWork {
            train: (claims & 1 != 0).then_some(Train {
                protocol: if claims & 2 != 0 {
                    TrainProtocol::Tcp
                } else {
                    TrainProtocol::Udp
                },
                payload_bytes: u16::from_be_bytes([*payload_high, *payload_low]),
            }),
            checksum: (claims & 4 != 0).then_some(Checksum {
                start: u16::from(claims >> 3),
                offset: u16::from(*payload_low),
            }),
        };
        engine.with(|world, agenda| world.send_frame(a, &mut buffer, length, offload, agenda));
        let now = engine.now();
        engine.run_until(now + Duration::from_us(2), u64::MAX);
    }
    engine.run_until(Instant::ZERO + Duration::from_s(60), u64::MAX);
    let world = &mut engine.model;
    while world
        .take_frame(|_, frame| assert!(frame.head.len() >= 14))
        .is_some()
    {}
    while world
        .take_raw(|_, _, bytes| assert!(bytes.len() >= 20))
        .is_some()
    {}
    assert_eq!(world.packets_alive(), 0, "{:?}", world.counters());
}

/// Tests a file with a graph. The network built from the file must have the reported number of
/// nodes.
///
/// Input: one byte, odd for GraphML and even for GML; then the text.
pub(crate) fn graph(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = core::str::from_utf8(text) else {
        return;
    };
    let mut network = NetworkBuilder::new(1);
    let link = LinkConfig::new(1_000_000_000, Duration::from_us(1));
    let read = match kind & 1 {
        1 => graphml(&mut network, text, &link),
        _ => gml(&mut network, text, &link),
    };
    match read {
        Ok(nodes) if nodes.len() < 1000 => {
            let _ = network.build();
        }
        Ok(_) => {}
        Err(error) => assert!(error.line >= 1 && !error.message.is_empty(), "{error:?}"),
    }
}

/// Tests a datagram of another engine of the network, or of a sender that claims to be one. A
/// decoded body must not change by encoding and decoding. A datagram with a wrong authentication
/// code must be counted and have no other effect.
///
/// Input: one byte (bit 0: compressed), then a body.
pub(crate) fn peering_datagram(input: &[u8]) {
    let Some((flags, body)) = input.split_first() else {
        return;
    };
    let (statics, messages) = &*DUMBBELL;
    let mut peer = Peer::new(1, 2, Key::new([7; 32]), 5, PeerConfig::default());
    let event = peer.handle_datagram(Instant::from_ns(1), input, statics, |_, _| {
        panic!("no input is sealed with the key")
    });
    assert!(event.is_none());
    assert_eq!(peer.stats().hostile, 1);

    let compressed = flags & 1 == 1;
    let mut seen = Vec::new();
    let mut again = DatagramBody::default();
    let read = DatagramReader::default().read(body, compressed, statics, |packet, bytes| {
        seen.push(format!("{packet:?} {bytes:?}"));
        again.put(packet, bytes, statics);
    });
    if read.is_ok() && !seen.is_empty() {
        let mut written = Vec::new();
        let compressed = again.finish(false, &mut written);
        let mut others = Vec::new();
        DatagramReader::default()
            .read(&written, compressed, statics, |packet, bytes| {
                others.push(format!("{packet:?} {bytes:?}"));
            })
            .expect("what was written is read");
        assert_eq!(others, seen);
    }
    // A datagram with this body that is authenticated with another key must be counted as hostile.
    let header = DatagramHeader {
        from: 2,
        to: 1,
        from_epoch: 9,
        to_epoch: 5,
        number: 1,
        compressed,
        ..DatagramHeader::default()
    };
    let mut datagram = Vec::new();
    header.write(body, 0, &Key::new([7; 32]), &mut datagram);
    let _ = peer.handle_datagram(Instant::from_ns(2), &datagram, statics, |_, _| {});
    assert_eq!(peer.stats().hostile, 1);
    let _ = messages.clone().read(body, &mut PacketBatch::default());
}

/// Static data that two engines have about a small network with flows of both kinds.
static DUMBBELL: LazyLock<(Statics, Messages)> = LazyLock::new(|| {
    let mut network = NetworkBuilder::new(1);
    let link = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
    let ends = dumbbell(&mut network, "", 2, &link, &link);
    let mut world = network.build().expect("a sound network");
    for (from, to) in ends.left.iter().zip(&ends.right) {
        let tcp = TcpConfig::default();
        world.add_tcp(*from, *to, tcp).expect("a sound flow");
        let pattern = Pattern::Constant { rate_bps: 1_000 };
        let udp = TrafficConfig::udp(pattern, PacketSize::Exponential(300.0));
        world.add_traffic(*to, *from, udp).expect("a sound flow");
    }
    (Statics::of(&world), Messages::of(&world))
});
