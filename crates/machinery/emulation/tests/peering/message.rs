//! Tests that an encoded window is decoded unchanged, and that other bytes are refused.

use timeloom_emulation::peering::exact::PacketBatch;
use timeloom_emulation::peering::message::Messages;
use timeloom_engine::Random;
use timeloom_net::{Packet, PacketKind, PortId};
use timeloom_time::{Duration, Instant};

#[test]
fn written_messages_are_read_and_others_are_refused() {
    let seed = 11;
    let mut random = Random::new(seed, 1);
    let world = crate::small::world(6);
    let mut writer = Messages::of(&world);
    let mut reader = Messages::of(&world);
    for round in 0..200 {
        let next = Instant::from_ns(random.below(1 << 50) as i64);
        let mut batch = PacketBatch::default();
        for _ in 0..random.below(20) {
            let kind =
                [PacketKind::TcpData, PacketKind::Udp, PacketKind::Raw][random.below(3) as usize];
            let size = 40 + random.below(1_400) as u16;
            let mut packet = Packet::new(kind, PortId(1), PortId(2), random.below(6) as u32, size);
            packet.at = next + Duration::from_ns(random.below(1_000_000) as i64);
            packet.stamp = packet.at - Duration::from_ns(random.below(1_000_000) as i64);
            packet.seq = random.bits() as u32;
            packet.link = PortId(random.below(4) as u32);
            if kind == PacketKind::Raw {
                let bytes = (0..size).map(|_| random.bits() as u8);
                batch.bytes.extend(bytes);
            }
            batch.packets.push(packet);
        }
        let mut message = Vec::new();
        writer.write(next, &batch, &mut message);
        let mut found = PacketBatch::default();
        let context = format!("seed {seed} round {round}");
        assert_eq!(reader.read(&message, &mut found), Ok(next), "{context}");
        assert_eq!(format!("{found:?}"), format!("{batch:?}"), "{context}");
        let short = random.below(message.len() as u64) as usize;
        assert!(
            reader
                .read(&message[..short], &mut PacketBatch::default())
                .is_err(),
            "{context}: {short} of {} bytes were read",
            message.len()
        );
        message.push(0);
        assert!(
            reader.read(&message, &mut PacketBatch::default()).is_err(),
            "{context}: a byte too many was read"
        );
    }
}
