//! TCP timers for hosts with external frames, where virtual time skips over the timers of the
//! hosts' kernels ([`crate::kernel_tcp`]).

use std::net::IpAddr;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Duration, Instant, Virtual};

use crate::bytes::{ArpMessage, IpHeader, TCP, be16};
use crate::ids::{Node, Token};
use crate::kernel_tcp::{Acknowledgement, Action, Fate, Segment, SentSegment, TcpTimerStats, Word};
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::buffers::{Content, Description, OffloadedWork};
use crate::tables::outside::Outbox;
use crate::tables::slab::PacketId;
use crate::world::World;

/// Ethertypes of VLAN tags (IEEE 802.1Q).
const VLAN_TAG: u16 = 0x8100;
const SERVICE_TAG: u16 = 0x88a8;
/// IP protocol numbers of tunnels: IP packets in IP packets (RFC 2003, RFC 4213), GRE, IPsec.
const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;

impl World {
    /// Keeps the TCP timers of a host's kernel in virtual time, for a host that is open to frames.
    /// The kernel must be configured for this: its own timers must be far in the future, and it
    /// must acknowledge immediately. The timers count in ticks of length `tick`.
    pub fn keep_tcp_timers(&mut self, node: Node, tick: Duration) {
        self.kernel_timers
            .keep(node.0, self.roles.len(), tick, self.seed);
    }

    /// Returns the activity of a host's TCP timers until `now`; `None` if the network does not keep
    /// them.
    pub fn tcp_timer_stats(&self, node: Node, now: Instant<Virtual>) -> Option<TcpTimerStats> {
        let number = self.kernel_timers.at(node.0)?;
        Some(self.kernel_timers.get(number).stats(now))
    }

    /// Removes and returns the segment that a host's kernel has sent last; `None` if it was returned
    /// before, or if the host's timers are not kept.
    pub fn take_sent_segment(&mut self, node: Node) -> Option<SentSegment> {
        let number = self.kernel_timers.at(node.0)?;
        self.kernel_timers.get_mut(number).tcp.take_sent()
    }

    /// Returns the content of the next frame for [`World::take_frame`] if it belongs to a
    /// connection on which the peer has ever reported a gap. After such a frame, the kernel may
    /// decide by a short timer which segments were lost.
    pub fn next_frame_after_gap(&self) -> Option<Acknowledgement> {
        let (node, id) = self.outside.first(Outbox::Frames)?;
        let number = self.kernel_timers.at(node)?;
        let segment = self.segment_of(&self.packets[id])?;
        let timers = &self.kernel_timers.get(number).tcp;
        timers.acknowledgement(&segment)
    }

    /// Processes a packet that a host's kernel sends; returns false if the packet is held back.
    #[cold]
    pub(super) fn note_sent<Q: EventQueue>(
        &mut self,
        number: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) -> bool {
        let now = agenda.now();
        let neighbours = &self.kernel_timers.get(number).neighbours;
        // The round-trip time of a connection's first segment counts from its creation by the
        // kernel.
        let since = neighbours.waited_since(now).unwrap_or(now);
        let mut out = Vec::new();
        let mut fate = Fate::Pass;
        if let Some(segment) = self.segment_of(&self.packets[id])
            && segment.is_opening()
        {
            self.packets[id].stamp = since;
        }
        let packet = self.packets[id];
        if let Some(segment) = self
            .segment_of(&packet)
            .filter(|it| self.is_own(number, it))
        {
            let copy = segment.needs_copy();
            let copy = copy.then(|| (self.packets.insert(packet), packet.stamp));
            let timers = &mut self.kernel_timers.get_mut(number).tcp;
            fate = timers.handle_sent(now, &segment, copy, &mut out);
            if fate == Fate::Hold {
                timers.hold(now, &segment, id, &mut out);
            }
        } else if let Some((Word::Asks(address), _)) = self.word_of(&packet) {
            let copy = self.packets.insert(packet);
            let neighbours = &mut self.kernel_timers.get_mut(number).neighbours;
            neighbours.handle_question(now, address, copy, &mut out);
        } else if self.hides_segment(number, &packet) {
            self.kernel_timers.get_mut(number).hidden += 1;
        }
        self.act_for_kernel(number, out, agenda);
        fate == Fate::Pass
    }

    /// Processes a packet that has arrived for a host's kernel.
    #[cold]
    pub(super) fn note_received<Q: EventQueue>(
        &mut self,
        number: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let (packet, now) = (self.packets[id], agenda.now());
        let mut out = Vec::new();
        if let Some(segment) = self.segment_of(&packet) {
            let stamps = (packet.stamp, self.echo_of(&packet, &segment));
            let timers = &mut self.kernel_timers.get_mut(number).tcp;
            timers.handle_received(now, &segment, stamps, &mut out);
        } else if let Some((word, from)) = self.word_of(&packet) {
            let neighbours = &mut self.kernel_timers.get_mut(number).neighbours;
            neighbours.handle_received(now, word, from, &mut out);
        }
        self.act_for_kernel(number, out, agenda);
    }

    /// Processes a scheduled wake-up for the timers of a host's kernel.
    pub(crate) fn wake_kernel_timers<Q: EventQueue>(
        &mut self,
        number: u32,
        agenda: &mut Agenda<Q>,
    ) {
        let now = agenda.now();
        if !self.kernel_timers.keep_appointment(number, now) {
            return;
        }
        let mut out = Vec::new();
        let timers = self.kernel_timers.get_mut(number);
        timers.tcp.handle_wake(now, &mut out);
        timers.neighbours.handle_wake(now, &mut out);
        self.act_for_kernel(number, out, agenda);
    }

    fn act_for_kernel<Q: EventQueue>(
        &mut self,
        number: u32,
        out: Vec<Action<PacketId>>,
        agenda: &mut Agenda<Q>,
    ) {
        let port = self.kernel_port(number);
        for action in out {
            match action {
                Action::Forget(id) => self.packets.remove(id),
                Action::Release(id) => {
                    self.packets[id].stamp = agenda.now();
                    self.transmit(port, id, agenda);
                }
                Action::Again(id, segment) => {
                    let mut packet = self.packets[id];
                    if packet.segments() > 1 {
                        let segment = segment.min(packet.segments() - 1);
                        packet = self.piece(&packet, segment, 1);
                    }
                    self.renew(number, &mut packet);
                    packet.stamp = agenda.now();
                    let id = self.packets.insert(packet);
                    self.transmit(port, id, agenda);
                }
            }
        }
        if let Some(due) = self.kernel_timers.appoint(number, agenda.now()) {
            let node = NodeId(self.kernel_timers.node_of(number));
            agenda.schedule(due, node, Token::KERNEL | number);
        }
    }

    /// Returns the echoed instant that a packet carries to another engine.
    pub(super) fn echo_to_leave(&self, packet: &Packet) -> Option<Instant<Virtual>> {
        if packet.kind != PacketKind::Raw {
            return None;
        }
        let carried = self.packets.buffers.get(packet.flow).echo;
        if carried.is_some() || self.kernel_timers.is_empty() {
            return carried;
        }
        self.echo_of(packet, &self.segment_of(packet)?)
    }

    /// Returns the instant at which the segment answered by `segment` was sent; `None` unless the
    /// network keeps the timers of the answering host too.
    fn echo_of(&self, packet: &Packet, segment: &Segment) -> Option<Instant<Virtual>> {
        let carried = self.packets.buffers.get(packet.flow).echo;
        if carried.is_some() {
            return carried;
        }
        let sender = self.ports.with_address(segment.connection.local.ip())?;
        let number = self.kernel_timers.at(self.ports[sender].node)?;
        let timers = &self.kernel_timers.get(number).tcp;
        timers.echo_at(segment, packet.stamp)
    }

    /// Updates a single segment before its retransmission to the header fields that the kernel
    /// would send now. The segment gets a new buffer, since the old one may be shared.
    fn renew(&mut self, number: u32, packet: &mut Packet) {
        let segment = self.segment_of(packet);
        let timers = &self.kernel_timers.get(number).tcp;
        let Some(news) = segment.and_then(|segment| timers.news(&segment)) else {
            return;
        };
        let mut bytes = self.assemble(packet);
        news.renew(&mut bytes);
        if let Some(ip) = IpHeader::read(&bytes) {
            let what = Description {
                used: u32::from(ip.length),
                content: Content::Ip,
                start: 0,
                header: ip.header,
                offload: OffloadedWork::default(),
            };
            let used = &bytes[..usize::from(ip.length)];
            packet.flow = self.packets.buffers.fill(used, what);
            packet.set_segments(0, 1, 0);
        }
        self.outside.return_scratch(bytes);
    }

    fn kernel_port(&self, number: u32) -> PortId {
        self.ports.first_of(self.kernel_timers.node_of(number))
    }

    /// Returns true for a segment whose source address is one of the host, or one that only the
    /// host knows (for example a container's). Returns false for forwarded segments, and for
    /// segments with the address of another node.
    fn is_own(&self, number: u32, segment: &Segment) -> bool {
        self.is_address_of(number, segment.connection.local.ip())
    }

    /// Returns true unless `address` is that of another node.
    fn is_address_of(&self, number: u32, address: IpAddr) -> bool {
        let owner = self.ports.with_address(address);
        owner.is_none_or(|owner| owner == self.kernel_port(number))
    }

    fn segment_of(&self, packet: &Packet) -> Option<Segment> {
        if packet.kind != PacketKind::Raw {
            return None;
        }
        let buffer = self.packets.buffers.get(packet.flow);
        if buffer.content != Content::Ip || packet.vlan != 0 {
            return None;
        }
        let train = buffer.train();
        let train = train.map(|train| (packet.seq, u32::from(train.payload_bytes)));
        Segment::read(buffer.inner(), packet.size, train)
    }

    /// Returns true for a packet of the host that contains a TCP segment which
    /// [`World::segment_of`] does not parse, or that may contain one: behind VLAN tags, as a
    /// fragment, or in a tunnel.
    fn hides_segment(&self, number: u32, packet: &Packet) -> bool {
        if packet.kind != PacketKind::Raw {
            return false;
        }
        let buffer = self.packets.buffers.get(packet.flow);
        let (mut ethertype, mut inner) = (buffer.ethertype(), buffer.inner());
        while let (VLAN_TAG | SERVICE_TAG, Some((tag, rest))) =
            (ethertype, inner.split_first_chunk::<4>())
        {
            (ethertype, inner) = (be16(tag, 2), rest);
        }
        if !matches!(ethertype, 0x0800 | 0x86dd) {
            return false;
        }
        let mut is_plain = buffer.content == Content::Ip;
        let mut outer = None;
        while let Some(ip) = IpHeader::read(inner) {
            let source = *outer.get_or_insert(ip.src);
            match ip.protocol {
                TCP if is_plain && !ip.fragment => return false,
                TCP | GRE | ESP | AH => return self.is_address_of(number, source),
                IP_IN_IP | IPV6_IN_IP if !ip.later_fragment => {
                    inner = inner.get(usize::from(ip.header)..).unwrap_or_default();
                    is_plain = false;
                }
                _ => return false,
            }
        }
        false
    }

    /// Returns the content of a packet of neighbour resolution, and its sender's address.
    fn word_of(&self, packet: &Packet) -> Option<(Word, Option<IpAddr>)> {
        if packet.kind != PacketKind::Raw {
            // A message that the model itself has made, for IPv4 or IPv6.
            let address = |port| self.ports.address(port, packet.family());
            let word = match packet.kind {
                PacketKind::ArpRequest => Word::Asks(address(packet.dst)?),
                PacketKind::ArpReply => Word::Tells(address(packet.src)?),
                _ => return None,
            };
            return Some((word, address(packet.src)));
        }
        let buffer = self.packets.buffers.get(packet.flow);
        let inner = buffer.inner();
        match buffer.content {
            Content::Arp => {
                let message = ArpMessage::read(inner)?;
                Some((Word::of_arp(inner)?, Some(message.sender.into())))
            }
            Content::Nd => {
                let from = IpHeader::read(inner).map(|ip| ip.src);
                Some((Word::of_nd(inner)?, from))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use timeloom_engine::Engine;

    use super::*;
    use crate::{LARGE, LinkConfig, NetworkBuilder, Owner};

    /// Returns the part of a network of two hosts, 1 ms apart, that engine `here` has.
    fn part(here: Owner) -> Engine<World> {
        let mut network = NetworkBuilder::new(3);
        let (a, b) = (network.host("a"), network.host("b"));
        let link = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
        let (from_a, from_b) = network.connect(a, b, link);
        network.set_address(from_a, IpAddr::from([10, 0, 0, 1]), 24);
        network.set_address(from_b, IpAddr::from([10, 0, 0, 2]), 24);
        let mut world = network.build().unwrap();
        world.keep_only(&[0, 1].into(), here);
        let own = [a, b][usize::from(here)];
        world.open_frames(own);
        world.keep_tcp_timers(own, Duration::from_ms(4));
        Engine::new(world)
    }

    /// Returns a segment without payload, with a time stamp and an echo, between a and b.
    fn segment(is_back: bool, flags: u8, stamps: [u8; 2]) -> Vec<u8> {
        let ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports = [[0x9c, 0x40], [0, 80]];
        let (from, to) = (usize::from(is_back), usize::from(!is_back));
        let mac = |end: usize| [2, 0, 0, 0, 0, end as u8];
        let mut frame = [&mac(to)[..], &mac(from), &[8, 0]].concat();
        frame.extend([0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([ends[from], ends[to]].concat());
        frame.extend([ports[from], ports[to]].concat());
        frame.extend([0, 0, 0, 9, 0, 0, 0, 10, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend([1, 1, 8, 10, 0, 0, 0, stamps[0], 0, 0, 0, stamps[1]]);
        frame
    }

    fn send(engine: &mut Engine<World>, node: u32, frame: &[u8]) -> Vec<(Packet, Vec<u8>)> {
        let mut buffer = frame.to_vec();
        buffer.resize(LARGE, 0);
        engine.with(|world, agenda| {
            let none = OffloadedWork::default();
            world.send_frame(Node(node), &mut buffer, frame.len(), none, agenda);
        });
        engine.run_until(engine.now() + Duration::from_us(1), 100);
        let crossings = engine.model.crossings();
        let packets = std::mem::take(&mut crossings.packets);
        let mut bytes = &std::mem::take(&mut crossings.bytes)[..];
        let mut one = |packet: Packet| {
            let (own, rest) = bytes.split_at(packet.size.into());
            bytes = rest;
            (packet, own.to_vec())
        };
        packets.into_iter().map(&mut one).collect()
    }

    /// The kernel behind one engine measures its round trips by segments that return from another.
    #[test]
    fn a_segment_carries_the_echoed_instant_to_another_engine() {
        let (mut one, mut other) = (part(0), part(1));
        one.run_until(Instant::ZERO + Duration::from_us(7), 100);
        let sent = send(&mut one, 0, &segment(false, Segment::SYN, [1, 0]));
        let [(mut packet, bytes)] = <[_; 1]>::try_from(sent).unwrap();
        assert_eq!(packet.take_echo(), None, "it answers nothing");
        let late = other.with(|world, agenda| world.take_over(&packet, &bytes, agenda));
        assert_eq!(late, Some(Duration::ZERO));
        other.run_until(Instant::ZERO + Duration::from_ms(2), 100);
        let back = send(
            &mut other,
            1,
            &segment(true, Segment::SYN | Segment::ACK, [5, 1]),
        );
        let [(packet, bytes)] = <[_; 1]>::try_from(back).unwrap();
        let echo = Some(Instant::ZERO + Duration::from_us(7));
        assert_eq!({ packet }.take_echo(), echo);
        // It is known where the segment arrives, and to a third engine.
        let mut taken = packet;
        let is_valid = one.model.take_over_bytes(&mut taken, &bytes);
        assert!(is_valid);
        assert_eq!(one.model.echo_to_leave(&taken), echo);
        let segment = one.model.segment_of(&taken).unwrap();
        assert_eq!(one.model.echo_of(&taken, &segment), echo);
    }
}
