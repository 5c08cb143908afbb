//! ICMP errors: what routers and simulated hosts say about packets of real
//! programs that they cannot pass on (RFC 792, RFC 1191, RFC 1812 section 4.3.2).
//!
//! Packets without payload get no such answer: their sources would not listen.
//! Each answers one packet, is never an answer to an error, and no more are sent
//! than Linux would (`icmp_limit.rs`).

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, ICMP, IpHeader, UDP, put16};
use crate::ids::{Node, NodeRole};
use crate::packet::{Kind, Packet, PortId};
use crate::tables::buffers::Content;
use crate::tables::ports::Subnet;
use crate::tables::refusal::Refusal;
use crate::tables::slab::PacketId;
use crate::world::World;

/// RFC 1812 section 4.3.2.3: as much of the packet as fits into 576 bytes.
const QUOTED: usize = 576 - 28;
const HEADER: u16 = 20;

/// Writes the error about `packet`, whose header is `ip`, from the address `src`.
fn write(refusal: Refusal, packet: &[u8], ip: &IpHeader, src: u32, out: &mut Vec<u8>) {
    let quoted = &packet[..packet.len().min(QUOTED)];
    let (kind, code, rest) = refusal.header();
    let length = 28 + quoted.len() as u16;
    out.clear();
    // Precedence 6: internetwork control (RFC 1812, section 4.3.2.5).
    out.extend([0x45, 0xc0, 0, 0, 0, 0, 0, 0, 64, ICMP, 0, 0]);
    out.extend(src.to_be_bytes());
    out.extend(ip.src.to_be_bytes());
    out.extend([kind, code, 0, 0, 0, 0]);
    out.extend(rest.to_be_bytes());
    out.extend(quoted);
    put16(out, 2, length);
    bytes::renew_ip_checksum(out);
    let sum = bytes::checksum(&out[usize::from(HEADER)..]);
    put16(out, 22, sum);
}

/// Whether an error may be sent about a packet at all (RFC 1812, section
/// 4.3.2.7): not about errors, later fragments, nor what was for many.
fn may_answer(ip: &IpHeader, packet: &[u8]) -> bool {
    let is_error =
        ip.protocol == ICMP && !matches!(packet.get(usize::from(ip.header)), Some(0 | 8 | 13..=18));
    let for_many = ip.dst >= 0xe000_0000;
    let from_nobody = ip.src == 0 || ip.src >> 24 == 127 || ip.src >= 0xe000_0000;
    !is_error && !ip.later_fragment && !for_many && !from_nobody
}

impl World {
    /// Router number `index`, which is `node`, passes a packet no further: its
    /// sender is told, where it is a real program.
    #[cold]
    pub(crate) fn refuse<Q: EventQueue>(
        &mut self,
        (node, index): (u32, u32),
        id: PacketId,
        refusal: Refusal,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = self.packets[id];
        let now = agenda.now();
        let error = self.error_about((node, now), &packet, |world, ip| {
            let back = world.ports.with_address(ip.src)?;
            let here = match refusal {
                Refusal::PortUnreachable => packet.dst,
                // RFC 1812 section 4.3.2.4: by which interface it leaves.
                _ => world.hop(node, index, back, packet.path_key())?.port,
            };
            Some((here, back, refusal))
        });
        self.packets.remove(id);
        let Some((here, back, bytes)) = error else {
            return;
        };
        let id = self.own_packet(here, back, &bytes);
        self.outside.return_scratch(bytes);
        self.counters.icmp_errors += 1;
        self.forward(node, index, id, agenda);
    }

    /// A router has nowhere to send a packet: for an address that no interface
    /// here has, or one that no route leads to.
    #[cold]
    pub(crate) fn refuse_unroutable<Q: EventQueue>(
        &mut self,
        at: (u32, u32),
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        self.counters.no_route += 1;
        let packet = &self.packets[id];
        if packet.kind != Kind::Raw {
            return self.packets.remove(id);
        }
        let buffer = self.packets.buffers.get(packet.flow);
        let known = IpHeader::read(buffer.inner()).map(|ip| self.ports.subnet(ip.dst));
        match known {
            Some(Some(Subnet::Broadcast)) | None => self.packets.remove(id),
            Some(Some(Subnet::Of(near))) if packet.dst == PortId::NONE => {
                self.forward_to_nobody(at, near, id, agenda);
            }
            Some(_) => self.refuse(at, id, Refusal::NetUnreachable, agenda),
        }
    }

    /// A packet for an address that nobody has, in the network of interface
    /// `near`: the last router on the way there finds that out.
    fn forward_to_nobody<Q: EventQueue>(
        &mut self,
        at: (u32, u32),
        near: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let (node, index) = at;
        let flow = self.packets[id].path_key();
        let segment = self.ports[near].segment;
        let hop = self.hop(node, index, near, flow);
        let onward = hop.filter(|hop| {
            let out = &self.ports[hop.port];
            self.ports[near].node != node && out.segment != segment
        });
        let Some(hop) = onward else {
            return self.refuse(at, id, Refusal::HostUnreachable, agenda);
        };
        self.counters.no_route -= 1; // so far there is one
        if self.packets[id].ttl <= 1 {
            self.counters.ttl_exceeded += 1;
            return self.refuse(at, id, Refusal::TimeExceeded, agenda);
        }
        self.packets[id].ttl -= 1;
        if self.is_too_long(hop.port, id) {
            return self.send_in_parts(at, hop, id, agenda);
        }
        self.emit(hop.port, hop.via, id, agenda);
    }

    /// A datagram for a simulated host or a router, where nobody listens. False
    /// when it is none, or not from anybody who could be told; it is still there.
    pub(crate) fn refuse_datagram<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) -> bool {
        let packet = self.packets[id];
        let buffer = self.packets.buffers.get(packet.flow);
        let datagram = IpHeader::read(buffer.inner()).is_some_and(|ip| ip.protocol == UDP);
        if buffer.content != Content::Ip || packet.dst != port || !datagram {
            return false;
        }
        let node = self.ports[port].node;
        if let NodeRole::Router(index) = self.roles[node as usize] {
            self.refuse((node, index), id, Refusal::PortUnreachable, agenda);
            return true;
        }
        let refusal = Refusal::PortUnreachable;
        let at = (node, agenda.now());
        let error = self.error_about(at, &packet, |_, _| Some((port, port, refusal)));
        self.packets.remove(id);
        let Some((_, _, bytes)) = error else {
            return true;
        };
        self.counters.icmp_errors += 1;
        self.send_raw(Node(node), &bytes, agenda);
        self.outside.return_scratch(bytes);
        true
    }

    /// The bytes of an error about `packet`, from whom, and to whom; the caller
    /// gives them back as the scratch buffer.
    fn error_about(
        &mut self,
        (node, now): (u32, Instant<Virtual>),
        packet: &Packet,
        ends: impl FnOnce(&Self, &IpHeader) -> Option<(PortId, PortId, Refusal)>,
    ) -> Option<(PortId, PortId, Vec<u8>)> {
        if packet.kind != Kind::Raw || self.packets.buffers.get(packet.flow).content != Content::Ip
        {
            return None;
        }
        // Of a train, the first segment stands for all.
        let first = match packet.segments() {
            0 | 1 => *packet,
            _ => self.piece(packet, 0, 1),
        };
        let quoted = self.assemble(&first);
        let answer = IpHeader::read(&quoted)
            .filter(|ip| may_answer(ip, &quoted))
            .and_then(|ip| {
                let (here, back, refusal) = ends(self, &ip)?;
                if !self.icmp_limits.allow(node, ip.src, refusal, now) {
                    self.counters.icmp_limited += 1;
                    return None;
                }
                let src = self.ports.address(here).bits;
                let mut bytes = Vec::new();
                write(refusal, &quoted, &ip, src, &mut bytes);
                Some((here, back, bytes))
            });
        self.outside.return_scratch(quoted);
        answer
    }

    /// A packet of `bytes` that a router itself sends out of `src`.
    pub(crate) fn own_packet(&mut self, src: PortId, dst: PortId, bytes: &[u8]) -> PacketId {
        let ip = IpHeader::read(bytes).expect("it has just been written");
        let packet = self.ip_packet(src, dst, &ip, bytes);
        self.packets.insert(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, after: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 1, protocol, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 9, 9]);
        bytes.extend(after);
        let length = bytes.len() as u16;
        put16(&mut bytes, 2, length);
        bytes::renew_ip_checksum(&mut bytes);
        bytes
    }

    #[test]
    fn an_error_quotes_the_packet_and_its_sums_are_right() {
        for (refusal, header) in [
            (Refusal::TimeExceeded, [11, 0, 0, 0]),
            (Refusal::TooBig(1400), [3, 4, 0x05, 0x78]),
        ] {
            for payload in [8, 1_000] {
                let offending = packet(UDP, &vec![7; payload]);
                let ip = IpHeader::read(&offending).unwrap();
                let mut out = Vec::new();
                write(refusal, &offending, &ip, 0x0a00_0002, &mut out);
                assert_eq!(out.len(), (28 + offending.len()).min(576));
                let read = IpHeader::read(&out).unwrap();
                assert_eq!((read.src, read.dst), (0x0a00_0002, 0x0a00_0001));
                assert_eq!(bytes::checksum(&out[..20]), 0);
                assert_eq!(bytes::checksum(&out[20..]), 0);
                assert_eq!([out[20], out[21], out[26], out[27]], header);
                assert_eq!(out[28..], offending[..out.len() - 28]);
            }
        }
    }

    #[test]
    fn nothing_is_said_about_errors_parts_and_what_was_for_many() {
        let fine = packet(UDP, &[0; 8]);
        let may = |bytes: &[u8]| may_answer(&IpHeader::read(bytes).unwrap(), bytes);
        assert!(may(&fine) && may(&packet(ICMP, &[8, 0])));
        assert!(!may(&packet(ICMP, &[3, 1])) && !may(&packet(ICMP, &[11, 0])));
        assert!(!may(&packet(ICMP, &[])), "it cannot be told");
        for (at, value) in [(7, 1), (16, 224), (16, 255), (12, 127), (12, 240)] {
            let mut bytes = fine.clone();
            bytes[at] = value;
            assert!(!may(&bytes), "byte {at} = {value}");
        }
    }
}
