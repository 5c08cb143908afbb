//! Tests that encoded packets are decoded unchanged, and that invalid bytes are refused.

use timeloom_emulation::peering::codec::Statics;
use timeloom_emulation::peering::datagram::{DatagramBody, DatagramHeader, DatagramReader, Key};
use timeloom_engine::Random;
use timeloom_net::{Packet, PacketKind, PortId, World};
use timeloom_time::{Duration, Instant};

/// Returns a packet with random fields, realistic or unrealistic, and its payload.
fn random_packet(random: &mut Random, world: &World) -> (Packet, Vec<u8>) {
    let kind = PacketKind::ALL[random.below(10) as usize];
    let flow = random.below(8) as u32;
    let mut packet = Packet::new(kind, PortId(1), PortId(2), flow, 1500);
    if let Some(template) = world.template(kind, flow) {
        packet = template;
    }
    packet.link = PortId(random.below(3) as u32 * 7);
    packet.at = Instant::from_ns(1_000_000_000 + random.below(100_000) as i64);
    packet.stamp = packet.at - Duration::from_ns(random.below(5_000_000) as i64);
    packet.seq = random.below(1_000) as u32;
    packet.ttl = 64 - random.below(2) as u8;
    if random.chance(0.2) {
        packet.sack_from = packet.seq + 3;
        packet.sack_to = packet.sack_from + 4;
    }
    if random.chance(0.1) {
        let bits = random.bits();
        packet.at = Instant::from_ns(bits as i64 >> 2);
        packet.stamp = Instant::from_ns(random.bits() as i64 >> 2);
        packet.seq = bits as u32;
        packet.sack_from = random.bits() as u32;
        packet.sack_to = random.bits() as u32;
        packet.src = PortId(random.bits() as u32);
        packet.dst_mac = PortId::NONE;
        packet.src_mac = PortId(random.bits() as u32);
        packet.flow = random.bits() as u32;
        packet.link = PortId(random.bits() as u32);
        packet.vlan = random.bits() as u16;
        packet.tos = random.bits() as u8;
        packet.flags = random.bits() as u8;
        packet.size = random.below(4_000) as u16;
    }
    let mut bytes = Vec::new();
    if kind == PacketKind::Raw {
        let noise = random.chance(0.5);
        let byte = |_| if noise { random.bits() as u8 } else { 7 };
        bytes = (0..packet.size).map(byte).collect();
    }
    (packet, bytes)
}

/// Returns all encoded fields as text, for comparison.
fn seen(packet: &Packet, bytes: &[u8]) -> String {
    format!("{packet:?} {bytes:?}")
}

#[test]
fn bodies_come_back_as_they_were() {
    let world = crate::small::world(8);
    let statics = Statics::of(&world);
    for seed in 0..20 {
        let mut random = Random::new(seed, 0);
        let (mut body, mut reader) = (DatagramBody::default(), DatagramReader::default());
        for _ in 0..20 {
            let mut sent = Vec::new();
            while body.len() < 9_000 && !random.chance(0.02) {
                let (packet, bytes) = random_packet(&mut random, &world);
                body.put(&packet, &bytes, &statics);
                sent.push(seen(&packet, &bytes));
            }
            let estimate = body.len();
            let mut out = Vec::new();
            let compressed = body.finish(true, &mut out);
            assert!(
                out.len() <= estimate,
                "seed {seed}: {} of {estimate}",
                out.len()
            );
            out.extend_from_slice(&[0; 5]);
            let mut got = Vec::new();
            let count = reader.read(&out, compressed, &statics, |packet, bytes| {
                got.push(seen(packet, bytes));
            });
            assert_eq!(count, Ok(sent.len() as u64), "seed {seed}");
            assert_eq!(got, sent, "seed {seed}");
        }
    }
}

#[test]
fn nonsense_is_refused_and_never_panics() {
    let world = crate::small::world(8);
    let statics = Statics::of(&world);
    let mut reader = DatagramReader::default();
    for seed in 0..300 {
        let mut random = Random::new(seed, 1);
        let mut body = DatagramBody::default();
        for _ in 0..20 {
            let (packet, bytes) = random_packet(&mut random, &world);
            body.put(&packet, &bytes, &statics);
        }
        let mut out = Vec::new();
        let compressed = body.finish(true, &mut out);
        for _ in 0..random.below(4) {
            let at = random.below(out.len() as u64) as usize;
            out[at] = random.bits() as u8;
        }
        out.truncate(random.below(out.len() as u64 + 1) as usize);
        let _ = reader.read(&out, compressed ^ random.chance(0.2), &statics, |_, _| ());
    }
}

#[test]
fn a_seal_covers_every_byte() {
    let key = Key::new([3; 32]);
    let header = DatagramHeader {
        from: 1,
        to: 2,
        from_epoch: 10,
        to_epoch: 20,
        number: 5,
        ..DatagramHeader::default()
    };
    let mut out = Vec::new();
    header.write(b"some packets", 100, &key, &mut out);
    assert_eq!(out.len(), 100);
    let mut plain = Vec::new();
    let (read, body) = DatagramHeader::read(&out, 2, 1, &key, &mut plain).unwrap();
    assert_eq!(read, header);
    assert!(body.starts_with(b"some packets"));
    assert!(
        DatagramHeader::read(&out, 1, 2, &key, &mut plain).is_none(),
        "thrown back"
    );
    assert!(DatagramHeader::read(&out, 2, 1, &Key::new([4; 32]), &mut plain).is_none());
    for at in 0..out.len() {
        for bit in 0..8 {
            let mut forged = out.clone();
            forged[at] ^= 1 << bit;
            assert!(
                DatagramHeader::read(&forged, 2, 1, &key, &mut plain).is_none(),
                "byte {at} bit {bit}"
            );
        }
    }
    for length in 0..out.len() {
        assert!(DatagramHeader::read(&out[..length], 2, 1, &key, &mut plain).is_none());
    }
}

#[test]
fn packets_of_flows_take_few_bytes() {
    let world = crate::small::world(8);
    let statics = Statics::of(&world);
    let mut body = DatagramBody::default();
    let mut sent = 0;
    // Packets of eight flows in turn, at the rate of a busy link with a growing queue.
    for round in 0..20 {
        for flow in 0..8 {
            let mut packet = world.template(PacketKind::TcpData, flow).unwrap();
            packet.link = PortId(0);
            packet.seq = 40_000 + round;
            packet.ttl = 63;
            packet.at = Instant::from_ns(5_000_000_000 + sent * 1_200);
            packet.stamp = packet.at - Duration::from_ns(2_000_000 + sent * 130);
            body.put(&packet, &[], &statics);
            sent += 1;
        }
    }
    let mut out = Vec::new();
    body.finish(true, &mut out);
    let each = out.len() as f64 / sent as f64;
    assert!(each < 9.0, "{each} bytes per packet");
}
