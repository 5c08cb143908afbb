//! Departure times of frames: of those that a resident sends, and of those of real programs whose
//! network card stamps them.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Instant, Virtual};

use super::resident::{Input, VLAN};
use crate::ids::{Node, NodeRole, Token};
use crate::packet::{Packet, PortId};
use crate::tables::buffers::OffloadedWork;
use crate::tables::residents::{Departure, Sender};
use crate::tables::slab::PacketId;
use crate::tables::switch::PortMode;
use crate::world::World;

impl World {
    /// Puts a resident's frame on the link out of one of its ports, behind all other packets. If
    /// there is a tag, the departure is reported to the resident.
    pub(super) fn send_for_resident<Q: EventQueue>(
        &mut self,
        resident: u32,
        port: usize,
        frame: &[u8],
        tag: Option<u64>,
        agenda: &mut Agenda<Q>,
    ) {
        let node = self.residents.node_of(resident);
        let at = self.residents.ports_of(resident).get(port).copied();
        let vlan = at.and_then(|at| self.vlan_out(node, at));
        let read = self.read_frame(frame, OffloadedWork::default());
        let (Some(at), Some(vlan), Some((mut packet, what))) = (at, vlan, read) else {
            self.counters.malformed += u64::from(vlan.is_some());
            return self.give_up(resident, port, tag, agenda);
        };
        packet.flow = self.packets.buffers.fill(frame, what);
        packet.src = at;
        packet.vlan = vlan;
        packet.stamp = agenda.now();
        let id = self.packets.insert(packet);
        match tag {
            None => self.transmit_one(at, id, agenda),
            Some(tag) => {
                self.transmit_stamped(at, id, (Sender::Resident(resident, port), tag), agenda)
            }
        }
    }

    /// Puts a packet of one frame on the link out of port `at`, behind all other packets. The
    /// departure is reported to the sender, with the tag.
    pub(super) fn transmit_stamped<Q: EventQueue>(
        &mut self,
        at: PortId,
        id: PacketId,
        (sender, tag): (Sender, u64),
        agenda: &mut Agenda<Q>,
    ) {
        let (number, old) = self.residents.expect_departure(sender, tag);
        if let Some(old) = old {
            self.report_departure(old, None, agenda);
        }
        self.packets[id].flags |= Packet::STAMPED;
        self.packets[id].link = PortId(number);
        let start = self.links[at].next_start(agenda.now());
        let dropped = self.links[at].stats.dropped;
        self.transmit_one(at, id, agenda);
        let link = &mut self.links[at];
        if link.stats.dropped != dropped {
            self.departed(number, None, agenda);
        } else if let Some(start) = start {
            let start = link.last_start().unwrap_or(start);
            let node = NodeId(self.ports[at].node);
            agenda.schedule(start, node, Token::DEPARTURE | number);
        } else if let Some(begun) = link.take_begun() {
            self.departed(begun, Some(agenda.now()), agenda);
        }
    }

    /// Returns the VLAN of frames that a resident sends out of a port; `None` if residents cannot
    /// send there.
    fn vlan_out(&self, node: u32, port: PortId) -> Option<u16> {
        let NodeRole::Switch(index) = self.roles[node as usize] else {
            return Some(0);
        };
        match self.switches[index as usize].mode(port)? {
            PortMode::Access(own) => (*own == VLAN).then_some(0),
            PortMode::Trunk => Some(VLAN),
        }
    }

    fn give_up<Q: EventQueue>(
        &mut self,
        resident: u32,
        port: usize,
        tag: Option<u64>,
        agenda: &mut Agenda<Q>,
    ) {
        if let Some(tag) = tag {
            let at = None;
            self.act(resident, Input::Departure { port, tag, at }, agenda);
        }
    }

    /// Reports departure number `number` to its sender: its instant, or `None` if the frame was
    /// dropped.
    pub(crate) fn departed<Q: EventQueue>(
        &mut self,
        number: u32,
        at: Option<Instant<Virtual>>,
        agenda: &mut Agenda<Q>,
    ) {
        let Some(departure) = self.residents.take_departure(number) else {
            return; // forgotten before
        };
        self.report_departure(departure, at, agenda);
    }

    fn report_departure<Q: EventQueue>(
        &mut self,
        departure: Departure,
        at: Option<Instant<Virtual>>,
        agenda: &mut Agenda<Q>,
    ) {
        let tag = departure.tag;
        match departure.sender {
            Sender::Resident(resident, port) => {
                self.act(resident, Input::Departure { port, tag, at }, agenda);
            }
            Sender::Outside(node) => self.outside.note_departure(Node(node), tag, at),
        }
    }
}
