//! Hosts: sending and receiving of packets.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::Instant;
use timeloom_time::convert::low_u32;

use crate::ids::Token;
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::slab::PacketId;
use crate::tcp::{Ack, HEADER_BYTES, Transmit, widen};
use crate::world::World;

impl World {
    /// Sends a packet from the host with interface `packet.src`.
    #[inline(always)]
    pub(crate) fn originate<Q: EventQueue>(&mut self, mut packet: Packet, agenda: &mut Agenda<Q>) {
        // Answers have the stamp of the packet that they answer.
        if !matches!(
            packet.kind,
            PacketKind::TcpAck | PacketKind::TcpSynAck | PacketKind::EchoReply
        ) {
            packet.stamp = agenda.now();
        }
        let (port, dst) = (packet.src, packet.dst);
        let id = self.packets.insert(packet);
        self.send_off(port, dst, id, agenda);
    }

    fn send_off<Q: EventQueue>(
        &mut self,
        port: PortId,
        dst: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let here = self.ports[port];
        let place = self.ports.get(dst);
        let via = if place.is_some_and(|place| place.segment == here.segment) {
            dst
        } else {
            self.ports.gateway_of(here.node)
        };
        if via == PortId::NONE {
            self.counters.no_route += 1;
            return self.packets.remove(id);
        }
        self.emit(port, via, id, agenda);
    }

    /// Handles a packet that arrives at the host whose interface is `port`.
    #[inline]
    pub(crate) fn receive<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = self.packets[id];
        if matches!(packet.kind, PacketKind::ArpRequest | PacketKind::ArpReply) {
            return self.handle_arp(port, id, agenda);
        }
        self.packets.remove(id);
        if packet.dst != port {
            // The packet was flooded by a switch that has not learnt this host's address, or
            // misrouted.
            self.counters.not_for_us += 1;
            return;
        }
        let now = agenda.now();
        self.crossings.note_arrival(&packet, now);
        match packet.kind {
            PacketKind::TcpData => {
                if packet.tos & Packet::CONGESTED != 0 {
                    self.note_congestion(&packet, agenda);
                }
                let receiver = &mut self.flows[packet.flow].receiver;
                let segment = widen(packet.seq, receiver.next);
                if let Some(ack) = receiver.handle_segment(now, segment, packet.stamp) {
                    self.send_ack(packet.flow, ack, agenda);
                }
                self.arm_receiver(packet.flow, agenda);
            }
            PacketKind::TcpAck => {
                let sender = &mut self.flows[packet.flow].sender;
                let near = sender.first_unacknowledged();
                let ack = Ack {
                    next: widen(packet.seq, near),
                    stamp: packet.stamp,
                    sack_from: widen(packet.sack_from, near),
                    sack_to: widen(packet.sack_to, near),
                    congested: packet.flags & Packet::ECE != 0,
                };
                sender.handle_ack(now, ack);
                self.pump(packet.flow, agenda);
            }
            PacketKind::Udp | PacketKind::EchoReply => {
                self.sources[packet.flow].count_arrival(&packet, now);
            }
            PacketKind::EchoRequest => {
                let kind = PacketKind::EchoReply;
                let mut reply = Packet::new(kind, port, packet.src, packet.flow, packet.size);
                reply.seq = packet.seq;
                reply.stamp = packet.stamp;
                self.originate(reply, agenda);
            }
            PacketKind::TcpSyn => {
                let kind = PacketKind::TcpSynAck;
                let mut answer = Packet::new(kind, port, packet.src, packet.flow, HEADER_BYTES);
                answer.stamp = packet.stamp;
                self.originate(answer, agenda);
            }
            PacketKind::TcpSynAck => {
                let sender = &mut self.flows[packet.flow].sender;
                sender.handle_opened(now, packet.stamp);
                self.pump(packet.flow, agenda);
            }
            PacketKind::ArpRequest | PacketKind::ArpReply | PacketKind::Raw | PacketKind::Fluid => {
            }
        }
    }

    /// Handles the congestion bits of a segment whose sender supports congestion marks.
    fn note_congestion<Q: EventQueue>(&mut self, packet: &Packet, agenda: &mut Agenda<Q>) {
        let marked = packet.tos & Packet::CONGESTED == Packet::CONGESTED;
        let receiver = &mut self.flows[packet.flow].receiver;
        if let Some(ack) = receiver.note_congestion(marked, packet.flags & Packet::CWR != 0) {
            self.send_ack(packet.flow, ack, agenda);
        }
    }

    /// Sends all segments that a flow's sender may send now.
    pub(crate) fn pump<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let now = agenda.now();
        loop {
            let flow = &mut self.flows[index];
            let mut congestion = (0, 0);
            let (kind, seq, size) = match flow.sender.poll_transmit(now) {
                None => break,
                Some(Transmit::Syn) => (PacketKind::TcpSyn, 0, HEADER_BYTES),
                Some(Transmit::Segment(segment)) => {
                    congestion = flow.sender.congestion_bits(segment);
                    (
                        PacketKind::TcpData,
                        segment,
                        flow.segment_bytes + HEADER_BYTES,
                    )
                }
            };
            let mut packet = Packet::new(kind, flow.from, flow.to, index, size);
            packet.seq = low_u32(seq);
            (packet.tos, packet.flags) = congestion;
            self.originate(packet, agenda);
        }
        let flow = &mut self.flows[index];
        let due = flow.sender.next_wake();
        if due < flow.sender_timer {
            flow.sender_timer = due;
            let node = NodeId(self.ports[flow.from].node);
            agenda.schedule(due, node, Token::SENDER | index);
        }
    }

    #[inline]
    fn arm_receiver<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let flow = &mut self.flows[index];
        let due = flow.receiver.next_wake();
        if due < flow.receiver_timer {
            flow.receiver_timer = due;
            let node = NodeId(self.ports[flow.to].node);
            agenda.schedule(due, node, Token::RECEIVER | index);
        }
    }

    fn send_ack<Q: EventQueue>(&mut self, index: u32, ack: Ack, agenda: &mut Agenda<Q>) {
        let flow = &self.flows[index];
        let mut packet = Packet::new(PacketKind::TcpAck, flow.to, flow.from, index, HEADER_BYTES);
        packet.seq = low_u32(ack.next);
        packet.stamp = ack.stamp;
        packet.sack_from = low_u32(ack.sack_from);
        packet.sack_to = low_u32(ack.sack_to);
        if ack.congested {
            packet.flags |= Packet::ECE;
        }
        if ack.sack_from < ack.sack_to {
            packet.size += SACK_BYTES;
        }
        self.originate(packet, agenda);
    }

    pub(crate) fn handle_sender_timer<Q: EventQueue>(
        &mut self,
        index: u32,
        agenda: &mut Agenda<Q>,
    ) {
        let now = agenda.now();
        let flow = &mut self.flows[index];
        if flow.sender_timer != now {
            return;
        }
        flow.sender_timer = Instant::FAR_FUTURE;
        flow.sender.handle_timeout(now);
        self.pump(index, agenda);
    }

    pub(crate) fn handle_receiver_timer<Q: EventQueue>(
        &mut self,
        index: u32,
        agenda: &mut Agenda<Q>,
    ) {
        let now = agenda.now();
        let flow = &mut self.flows[index];
        if flow.receiver_timer != now {
            return;
        }
        flow.receiver_timer = Instant::FAR_FUTURE;
        if let Some(ack) = flow.receiver.handle_timeout(now) {
            self.send_ack(index, ack, agenda);
        }
        self.arm_receiver(index, agenda);
    }
}

/// Length in bytes of a SACK option with one block (RFC 2018), padded to a multiple of four.
const SACK_BYTES: u16 = 12;
