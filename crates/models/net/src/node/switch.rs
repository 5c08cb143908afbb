//! Ethernet switches: learning and ageing of addresses, flooding, VLANs.

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;

use crate::packet::PortId;
use crate::tables::slab::PacketId;
use crate::tables::switch::PortMode;
use crate::world::World;

impl World {
    /// Handles a frame that switch number `index` receives at its port `into`.
    pub(crate) fn bridge<Q: EventQueue>(
        &mut self,
        index: u32,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let switch = &mut self.switches[index as usize];
        let packet = &mut self.packets[id];
        let Some(vlan) = switch.classify(into, packet.vlan) else {
            self.counters.bad_vlan += 1;
            return self.packets.remove(id);
        };
        packet.vlan = vlan;
        let frame = *packet;
        let now = agenda.now();
        let known = switch.learn_and_find(now, vlan, frame.src_mac, into, frame.dst_mac);
        if let Some(port) = known {
            if port == into {
                // The receiver is behind the port at which the frame arrived.
                return self.packets.remove(id);
            }
            return self.put_out(index, port, id, agenda);
        }
        for index_of_port in 0..self.switches[index as usize].ports().len() {
            let (port, mode) = &self.switches[index as usize].ports()[index_of_port];
            let port = *port;
            if mode.carries(vlan) && port != into {
                let copy = self.packets.insert(frame);
                self.put_out(index, port, copy, agenda);
            }
        }
        self.packets.remove(id);
    }

    fn put_out<Q: EventQueue>(
        &mut self,
        index: u32,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let mode = self.switches[index as usize].mode(port);
        if matches!(mode, Some(PortMode::Access(_))) {
            self.packets[id].vlan = 0;
        }
        self.transmit(port, id, agenda);
    }
}
