//! Frames that a resident sends, and their departure times.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Instant, Virtual};

use super::resident::{Input, VLAN};
use crate::ids::{NodeRole, Token};
use crate::packet::{Packet, PortId};
use crate::tables::buffers::OffloadedWork;
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
        let number = tag.map(|tag| self.expect_departure(resident, port, tag, agenda));
        if let Some(number) = number {
            packet.flags |= Packet::STAMPED;
            packet.link = PortId(number);
        }
        let start = self.links[at].next_start(agenda.now());
        let dropped = self.links[at].stats.dropped;
        let id = self.packets.insert(packet);
        self.transmit_one(at, id, agenda);
        let Some(number) = number else { return };
        let link = &mut self.links[at];
        if link.stats.dropped != dropped {
            self.departed(number, None, agenda);
        } else if let Some(start) = start {
            let start = link.last_start().unwrap_or(start);
            agenda.schedule(start, NodeId(node), Token::DEPARTURE | number);
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

    fn expect_departure<Q: EventQueue>(
        &mut self,
        resident: u32,
        port: usize,
        tag: u64,
        agenda: &mut Agenda<Q>,
    ) -> u32 {
        let (number, old) = self.residents.expect_departure(resident, port, tag);
        if let Some(old) = old {
            self.give_up(old.resident, old.port, Some(old.tag), agenda);
        }
        number
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

    /// Reports departure number `number` to its resident: its instant, or `None` if the frame was
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
        let (port, tag) = (departure.port, departure.tag);
        self.act(
            departure.resident,
            Input::Departure { port, tag, at },
            agenda,
        );
    }
}
