//! Fragmentation of real programs' packets that are longer than a link's MTU.

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;

use crate::bytes::{self, IpHeader, be16, length16, put16};
use crate::packet::{PacketKind, PortId};
use crate::route::Hop;
use crate::tables::refusal::Refusal;
use crate::tables::slab::PacketId;
use crate::world::World;

/// Divides an IPv4 packet into fragments of up to `mtu` bytes (RFC 791, section 3.2). IP options
/// are copied into all fragments, which receivers must accept. Routers do not fragment IPv6 packets
/// (RFC 8200, section 4.5).
fn cut(packet: &[u8], ip: &IpHeader, mtu: u16, mut each: impl FnMut(&[u8])) {
    let header = usize::from(ip.header);
    // All fragments but the last have a multiple of eight bytes of payload.
    let most = (usize::from(mtu).saturating_sub(header) / 8 * 8).max(8);
    let before = be16(packet, 6);
    let payload = &packet[header..usize::from(ip.length)];
    let mut fragment = Vec::with_capacity(header + most);
    for (number, part) in payload.chunks(most).enumerate() {
        let from = length16(number * most / 8);
        let last = usize::from(from) * 8 + part.len() == payload.len();
        // A part of a fragment with "more fragments" also has that flag.
        let more = if last { before & MORE } else { MORE };
        fragment.clear();
        fragment.extend(&packet[..header]);
        fragment.extend(part);
        put16(&mut fragment, 2, length16(header + part.len()));
        put16(&mut fragment, 6, more | ((before & OFFSET) + from) & OFFSET);
        bytes::renew_ip_checksum(&mut fragment);
        each(&fragment);
    }
}

const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

impl World {
    /// Returns true if a packet of a real program is longer than the MTU of the link out of `port`.
    #[inline]
    pub(crate) fn is_too_long(&self, port: PortId, id: PacketId) -> bool {
        let packet = &self.packets[id];
        if packet.kind != PacketKind::Raw {
            return false;
        }
        let train = self.packets.buffers.get(packet.flow).train();
        let payload = train.map_or(0, |train| train.payload_bytes);
        packet.largest(payload) > u32::from(self.links[port].mtu())
    }

    /// Sends a packet that is longer than the MTU of its next link from router `at` by `hop`. The
    /// packet is fragmented, or its sender is informed of the MTU.
    #[cold]
    pub(crate) fn send_in_parts<Q: EventQueue>(
        &mut self,
        at: (u32, u32),
        hop: Hop,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let mtu = self.links[hop.port].mtu();
        let packet = self.packets[id];
        let header = IpHeader::read(self.packets.buffers.get(packet.flow).inner());
        let Some(header) = header.filter(|header| !header.dont_fragment) else {
            self.counters.too_long += u64::from(packet.segments());
            return self.refuse(at, id, Refusal::TooBig(mtu), agenda);
        };
        if mtu < header.header + 8 {
            self.counters.too_long += u64::from(packet.segments());
            return self.packets.remove(id);
        }
        for segment in 0..packet.segments() {
            let part = match packet.segments() {
                1 => packet,
                _ => self.piece(&packet, segment, 1),
            };
            let whole = self.assemble(&part);
            let ip = IpHeader::read(&whole).expect("it has just been written");
            let mut parts = Vec::new();
            cut(&whole, &ip, mtu, |bytes| {
                parts.push(self.own_packet(packet.src, packet.dst, bytes));
            });
            self.outside.return_scratch(whole);
            for part in parts {
                // All fragments take the same path.
                self.packets[part].sack_to = packet.sack_to;
                self.packets[part].stamp = packet.stamp;
                self.emit(hop.port, hop.via, part, agenda);
            }
        }
        self.packets.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_put_together_are_the_whole() {
        for (length, options, mtu) in [(3_000, 0, 1_500), (1_480, 0, 576), (700, 8, 68), (9, 0, 68)]
        {
            let header = 20 + options;
            let mut packet = vec![0u8; header];
            packet[0] = 0x40 | (header / 4) as u8;
            put16(&mut packet, 2, (header + length) as u16);
            // The packet itself is a fragment, at offset 80 of a larger packet and not its last.
            put16(&mut packet, 6, MORE | 10);
            packet.extend((0..length).map(|at| at as u8));
            let ip = IpHeader::read(&packet).unwrap();
            let mut whole = vec![None; length];
            let mut count = 0;
            cut(&packet, &ip, mtu, |bytes| {
                let part = IpHeader::read(bytes).unwrap();
                assert!(bytes.len() <= usize::from(mtu) && bytes::checksum(&bytes[..header]) == 0);
                assert!(be16(bytes, 6) & MORE != 0);
                let from = (usize::from(be16(bytes, 6) & OFFSET) - 10) * 8;
                let payload = &bytes[usize::from(part.header)..];
                for (place, byte) in whole[from..from + payload.len()].iter_mut().zip(payload) {
                    assert!(place.replace(*byte).is_none(), "sent twice");
                }
                count += 1;
            });
            let most = (usize::from(mtu) - header) / 8 * 8;
            assert_eq!(count, length.div_ceil(most));
            assert!(
                whole
                    .iter()
                    .zip(&packet[header..])
                    .all(|(got, sent)| *got == Some(*sent))
            );
        }
    }
}
