//! Sources of datagrams: constant, random, bursty, from a trace, or pings.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Instant, Virtual};

use crate::ids::Token;
use crate::packet::{Kind, Packet};
use crate::world::World;

impl World {
    /// Makes the appointment for a source's next packet. Its size waits in the
    /// source.
    pub(crate) fn schedule_source<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let source = &mut self.sources[index as usize];
        let Some((at, size)) = source.next() else {
            return;
        };
        if at >= source.config.stop || at == Instant::FAR_FUTURE {
            return;
        }
        self.next_sizes[index as usize] = size;
        let node = NodeId(self.ports[source.from.index()].node);
        agenda.schedule(at.max(agenda.now()), node, Token::SOURCE | index);
    }

    /// A source's next packet is due.
    pub(crate) fn handle_source<Q: EventQueue>(&mut self, index: u32, agenda: &mut Agenda<Q>) {
        let source = &mut self.sources[index as usize];
        let kind = if source.config.echo {
            Kind::EchoRequest
        } else {
            Kind::Udp
        };
        let size = self.next_sizes[index as usize];
        let mut packet = Packet::new(kind, source.from, source.to, index, size);
        packet.seq = source.stats.sent as u32;
        packet.tos = source.config.tos;
        source.stats.sent += 1;
        self.originate(packet, agenda);
        self.schedule_source(index, agenda);
    }

    /// A datagram, or the reply to a ping, came to where it should.
    #[inline]
    pub(crate) fn count_arrival(&mut self, packet: &Packet, now: Instant<Virtual>) {
        let source = &mut self.sources[packet.flow as usize];
        let stats = &mut source.stats;
        let delay = (now - packet.stamp).as_ns() as u64;
        stats.received += 1;
        stats.received_bytes += u64::from(packet.size);
        stats.delay_sum_ns += delay;
        stats.delay_max_ns = stats.delay_max_ns.max(delay);
        if packet.seq < source.highest {
            stats.reordered += 1;
        }
        source.highest = source.highest.max(packet.seq);
    }
}
