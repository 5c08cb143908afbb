//! ICMP errors of routers and simulated hosts about real programs' packets that they cannot forward
//! or deliver (RFC 792, RFC 1191, RFC 1812 section 4.3.2; RFC 4443).
//!
//! Simulated packets without payload cause no errors, because their sources would ignore them. A
//! packet causes at most one error, an error never causes another, and there are no more errors
//! than Linux would send (`icmp_limit.rs`).

use std::net::IpAddr;

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, ICMP, ICMPV6, IpHeader, UDP, V6_HEADER};
use crate::ids::{Node, NodeRole};
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::address::{Family, Subnet};
use crate::tables::buffers::Content;
use crate::tables::refusal::Refusal;
use crate::tables::slab::PacketId;
use crate::world::World;

/// Maximum length of an ICMPv4 error in bytes. The error quotes as much of the packet as fits (RFC
/// 1812, section 4.3.2.3).
const LONGEST: usize = 576;
/// Maximum length of an ICMPv6 error in bytes: the minimum MTU of IPv6 (RFC 4443, section 2.4).
const LONGEST_OF_V6: usize = 1_280;
/// Length in bytes of the ICMP header, which precedes the quotation.
const ICMP_HEADER: usize = 8;
const V4_HEADER: usize = 20;

/// Writes the ICMP error about `packet` with header `ip` to `out`. `src` is the error's source
/// address.
fn write(refusal: Refusal, packet: &[u8], ip: &IpHeader, src: IpAddr, out: &mut Vec<u8>) {
    out.clear();
    let (header, longest) = match (src, ip.src) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            // Precedence 6 is internetwork control (RFC 1812, section 4.3.2.5).
            out.extend([0x45, 0xc0, 0, 0, 0, 0, 0, 0, 64, ICMP, 0, 0]);
            out.extend(src.octets());
            out.extend(dst.octets());
            (V4_HEADER, LONGEST)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            out.extend([0x60, 0, 0, 0, 0, 0, ICMPV6, 64]);
            out.extend(src.octets());
            out.extend(dst.octets());
            (V6_HEADER, LONGEST_OF_V6)
        }
        _ => unreachable!("an answer is of the kind of the question"),
    };
    let quoted = &packet[..packet.len().min(longest - header - ICMP_HEADER)];
    let (kind, code, rest) = refusal.header(Family::of(src));
    out.extend([kind, code, 0, 0]);
    out.extend(rest.to_be_bytes());
    out.extend(quoted);
    let length = bytes::length16(out.len());
    bytes::set_length(out, length);
    if header == V4_HEADER {
        bytes::renew_ip_checksum(out);
    }
    bytes::set_icmp_checksum(out, header);
}

/// Returns true if a packet may cause an error (RFC 1812, section 4.3.2.7; RFC 4443, section 2.4).
/// Errors, later fragments and multicast or broadcast packets may not. Multicast IPv6 packets that
/// are too long are an exception, because their senders learn the MTU in this way.
fn may_answer(refusal: Refusal, ip: &IpHeader, packet: &[u8]) -> bool {
    let kind = packet.get(usize::from(ip.header)).copied();
    let (is_error, for_many, from_nobody) = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (src, dst) = (src.to_bits(), dst.to_bits());
            let is_error = ip.protocol == ICMP && !matches!(kind, Some(0 | 8 | 13..=18));
            let from_nobody = src == 0 || src >> 24 == 127 || src >= 0xe000_0000;
            (is_error, dst >= 0xe000_0000, from_nobody)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let is_error = ip.protocol == ICMPV6 && kind.is_none_or(|kind| kind < 128);
            let from_nobody = src.is_unspecified() || src.is_loopback() || src.is_multicast();
            let too_big = matches!(refusal, Refusal::TooBig(_));
            (is_error, dst.is_multicast() && !too_big, from_nobody)
        }
        _ => return false,
    };
    !is_error && !ip.later_fragment && !for_many && !from_nobody
}

impl World {
    /// Drops a packet at node `node`, which is router number `index`, and sends an ICMP error if
    /// the sender is a real program.
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
                // The source address is that of the interface by which the error leaves (RFC 1812,
                // section 4.3.2.4).
                _ => {
                    let (flow, family) = (packet.path_key(), packet.family());
                    world.hop((node, index), back, family, flow)?.port
                }
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

    /// Drops a packet that a router cannot forward, because no interface of the network has its
    /// destination address or because there is no route.
    #[cold]
    pub(crate) fn refuse_unroutable<Q: EventQueue>(
        &mut self,
        at: (u32, u32),
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        self.counters.no_route += 1;
        let packet = &self.packets[id];
        if packet.kind != PacketKind::Raw {
            return self.packets.remove(id);
        }
        let buffer = self.packets.buffers.get(packet.flow);
        let known = IpHeader::read(buffer.inner()).map(|ip| self.ports.subnet(ip.dst));
        match known {
            Some(Some(Subnet::Broadcast)) | None => self.packets.remove(id),
            Some(Some(Subnet::Of(near))) if packet.dst == PortId::NONE => {
                self.forward_to_unused_address(at, near, id, agenda);
            }
            Some(_) => self.refuse(at, id, Refusal::NetUnreachable, agenda),
        }
    }

    /// Forwards a packet whose destination address belongs to the network of interface `near`, but
    /// to no node. The last router on the way detects that.
    fn forward_to_unused_address<Q: EventQueue>(
        &mut self,
        at: (u32, u32),
        near: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let (node, _) = at;
        let packet = &self.packets[id];
        let (flow, family) = (packet.path_key(), packet.family());
        let segment = self.ports[near].segment;
        let hop = self.hop(at, near, family, flow);
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

    /// Refuses a datagram for a simulated host or a router, which have no sockets. Returns false
    /// and keeps the packet if it is not a datagram for this interface.
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

    /// Returns an ICMP error about `packet`, with its source and destination. The bytes are in the
    /// scratch buffer, which the caller must return.
    fn error_about(
        &mut self,
        (node, now): (u32, Instant<Virtual>),
        packet: &Packet,
        ends: impl FnOnce(&Self, &IpHeader) -> Option<(PortId, PortId, Refusal)>,
    ) -> Option<(PortId, PortId, Vec<u8>)> {
        if packet.kind != PacketKind::Raw
            || self.packets.buffers.get(packet.flow).content != Content::Ip
        {
            return None;
        }
        // About a train, the error quotes the first segment.
        let first = match packet.segments() {
            0 | 1 => *packet,
            _ => self.piece(packet, 0, 1),
        };
        let quoted = self.assemble(&first);
        let answer = IpHeader::read(&quoted).and_then(|ip| {
            let (here, back, refusal) = ends(self, &ip)?;
            let src = self.ports.address(here, Family::of(ip.src))?;
            if !may_answer(refusal, &ip, &quoted) {
                return None;
            }
            if !self.icmp_limits.allow(node, ip.src, refusal, now) {
                self.counters.icmp_limited += 1;
                return None;
            }
            let mut bytes = Vec::new();
            write(refusal, &quoted, &ip, src, &mut bytes);
            Some((here, back, bytes))
        });
        self.outside.return_scratch(quoted);
        answer
    }

    /// Returns a packet with `bytes` that a node itself sends from interface `src`.
    pub(crate) fn own_packet(&mut self, src: PortId, dst: PortId, bytes: &[u8]) -> PacketId {
        let ip = IpHeader::read(bytes).expect("it has just been written");
        let packet = self.ip_packet(src, dst, &ip, bytes);
        self.packets.insert(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::put16;

    fn packet(protocol: u8, after: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 1, protocol, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 9, 9]);
        bytes.extend(after);
        let length = bytes::length16(bytes.len());
        put16(&mut bytes, 2, length);
        bytes::renew_ip_checksum(&mut bytes);
        bytes
    }

    fn packet_v6(protocol: u8, after: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol, 1];
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9]);
        bytes.extend(after);
        let length = bytes::length16(bytes.len());
        bytes::set_length(&mut bytes, length);
        bytes
    }

    #[test]
    fn an_error_quotes_the_packet_and_its_sums_are_right() {
        let router = IpAddr::from([10, 0, 0, 2]);
        for (refusal, header) in [
            (Refusal::TimeExceeded, [11, 0, 0, 0]),
            (Refusal::TooBig(1400), [3, 4, 0x05, 0x78]),
        ] {
            for payload in [8, 1_000] {
                let offending = packet(UDP, &vec![7; payload]);
                let ip = IpHeader::read(&offending).unwrap();
                let mut out = Vec::new();
                write(refusal, &offending, &ip, router, &mut out);
                assert_eq!(out.len(), (28 + offending.len()).min(576));
                let read = IpHeader::read(&out).unwrap();
                assert_eq!((read.src, read.dst), (router, IpAddr::from([10, 0, 0, 1])));
                assert_eq!(bytes::checksum(&out[..20]), 0);
                assert_eq!(bytes::checksum(&out[20..]), 0);
                assert_eq!([out[20], out[21], out[26], out[27]], header);
                assert_eq!(out[28..], offending[..out.len() - 28]);
            }
        }
    }

    #[test]
    fn an_error_of_ipv6_does_too() {
        let router: IpAddr = "fd00::2".parse().unwrap();
        for (refusal, header) in [
            (Refusal::TimeExceeded, [3, 0, 0, 0, 0, 0]),
            (Refusal::HostUnreachable, [1, 3, 0, 0, 0, 0]),
            (Refusal::TooBig(1400), [2, 0, 0, 0, 0x05, 0x78]),
        ] {
            for payload in [8, 3_000] {
                let offending = packet_v6(UDP, &vec![7; payload]);
                let ip = IpHeader::read(&offending).unwrap();
                let mut out = Vec::new();
                write(refusal, &offending, &ip, router, &mut out);
                assert_eq!(out.len(), (48 + offending.len()).min(1_280));
                let read = IpHeader::read(&out).unwrap();
                assert_eq!((read.src, read.dst), (router, ip.src));
                assert_eq!(
                    (usize::from(read.length), read.protocol),
                    (out.len(), ICMPV6)
                );
                let pseudo = bytes::pseudo_sum(&out[8..40], ICMPV6, read.length - 40);
                let whole = u32::from(bytes::sum(&out[40..])) + u32::from(pseudo);
                assert_eq!((whole >> 16) + (whole & 0xffff), 0xffff);
                let (kind, rest) = ([out[40], out[41]], &out[44..48]);
                assert_eq!([&kind[..], rest].concat(), header);
                assert_eq!(out[48..], offending[..out.len() - 48]);
            }
        }
    }

    #[test]
    fn no_error_is_sent_about_errors_fragments_and_multicasts() {
        let may =
            |bytes: &[u8], refusal| may_answer(refusal, &IpHeader::read(bytes).unwrap(), bytes);
        let fine = packet(UDP, &[0; 8]);
        let up = |bytes: &[u8]| may(bytes, Refusal::TimeExceeded);
        assert!(up(&fine) && up(&packet(ICMP, &[8, 0])));
        assert!(!up(&packet(ICMP, &[3, 1])) && !up(&packet(ICMP, &[11, 0])));
        assert!(!up(&packet(ICMP, &[])), "it cannot be told");
        for (at, value) in [(7, 1), (16, 224), (16, 255), (12, 127), (12, 240)] {
            let mut bytes = fine.clone();
            bytes[at] = value;
            assert!(!up(&bytes), "byte {at} = {value}");
        }

        let fine = packet_v6(UDP, &[0; 8]);
        assert!(up(&fine) && up(&packet_v6(ICMPV6, &[128, 0])));
        for error in [1, 2, 3, 4, 127] {
            assert!(!up(&packet_v6(ICMPV6, &[error, 0])), "{error}");
        }
        assert!(!up(&packet_v6(ICMPV6, &[])), "it cannot be told");
        let mut group = fine.clone();
        group[24] = 0xff;
        assert!(!up(&group) && may(&group, Refusal::TooBig(1_280)));
        let mut unspecified = fine;
        unspecified[8..24].fill(0);
        assert!(!up(&unspecified));
    }
}
