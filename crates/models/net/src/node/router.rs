//! Routers: forwarding of packets.

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;

use crate::packet::{NIL, PacketKind, PortId};
use crate::route::Hop;
use crate::tables::address::Family;
use crate::tables::refusal::Refusal;
use crate::tables::slab::PacketId;
use crate::world::World;

impl World {
    /// Handles a packet at router `node`, which has arrived there or which the router itself sends.
    #[inline]
    pub(crate) fn forward<Q: EventQueue>(
        &mut self,
        node: u32,
        index: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = &mut self.packets[id];
        let dst = packet.dst;
        if dst == PortId::NONE {
            // The address belongs to no node of the network.
            return self.refuse_unroutable((node, index), id, agenda);
        }
        if self.ports[dst].node == node {
            return self.receive_at_router(node, index, id, agenda);
        }
        if packet.ttl <= 1 {
            self.counters.ttl_exceeded += 1;
            return self.refuse((node, index), id, Refusal::TimeExceeded, agenda);
        }
        packet.ttl -= 1;
        let (flow, family) = (packet.path_key(), packet.family());
        match self.hop((node, index), dst, family, flow) {
            Some(hop) if self.is_too_long(hop.port, id) => {
                self.send_in_parts((node, index), hop, id, agenda);
            }
            Some(hop) => self.emit(hop.port, hop.via, id, agenda),
            None => self.refuse_unroutable((node, index), id, agenda),
        }
    }

    /// Returns the next hop at a router for packets to interface `dst`, by its address of this
    /// family.
    #[inline]
    pub(crate) fn hop(
        &self,
        (node, index): (u32, u32),
        dst: PortId,
        family: Family,
        flow: u32,
    ) -> Option<Hop> {
        let to = self.ports[dst];
        let router = &self.routers[index as usize];
        if router.has_statics()
            && let Some(address) = self.ports.address(dst, family)
            && let Some(hop) = router.static_hop(address)
        {
            Some(hop)
        } else if to.peer_node == node {
            // The destination is at the far end of one of the router's cables.
            Some(Hop {
                port: dst.peer(),
                via: dst,
            })
        } else if let Some(port) = router.lan(to.segment) {
            Some(Hop { port, via: dst })
        } else if to.target == NIL {
            None
        } else {
            self.routes.hop(router.number(), to.target, flow)
        }
    }

    /// Answers echo requests to a router, refuses real programs' datagrams, and drops all other
    /// packets for the router.
    fn receive_at_router<Q: EventQueue>(
        &mut self,
        node: u32,
        index: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = &mut self.packets[id];
        if packet.kind == PacketKind::Raw {
            return self.answer_echo(node, index, id, agenda);
        }
        if packet.kind != PacketKind::EchoRequest {
            self.counters.not_for_us += 1;
            return self.packets.remove(id);
        }
        packet.kind = PacketKind::EchoReply;
        packet.ttl = 64;
        core::mem::swap(&mut packet.src, &mut packet.dst);
        self.forward(node, index, id, agenda);
    }
}
