//! Ethernet switches: learning, ageing, flooding, VLANs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::PortId;
use crate::tables::slab::PacketId;
use crate::world::World;

/// What a switch does with VLAN tags at a port (IEEE 802.1Q).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMode {
    /// Untagged frames only; they belong to this VLAN.
    Access(u16),
    /// Tagged frames of all VLANs.
    Trunk,
}

/// A switch and what it has learnt.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) ports: Vec<(PortId, PortMode)>,
    learnt: HashMap<u64, Learnt, BuildHasherDefault<Mixer>>,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    port: PortId,
    at: Instant<Virtual>,
}

/// IEEE 802.1Q, table 8-6: the default ageing time.
const AGEING: Duration = Duration::from_s(300);

/// Hashes one number without a random key: the same in every run.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

impl Switch {
    pub(crate) fn new(ports: Vec<(PortId, PortMode)>) -> Self {
        Self {
            ports,
            learnt: HashMap::default(),
        }
    }

    pub(crate) fn mode(&self, port: PortId) -> Option<&PortMode> {
        let mut ports = self.ports.iter();
        ports
            .find(|(other, _)| *other == port)
            .map(|(_, mode)| mode)
    }

    /// Learns where `mac` is and looks up `to`.
    fn learn_and_find(
        &mut self,
        now: Instant<Virtual>,
        vlan: u16,
        mac: PortId,
        port: PortId,
        to: PortId,
    ) -> Option<PortId> {
        let key = |mac: PortId| u64::from(vlan) << 32 | u64::from(mac.0);
        self.learnt.insert(key(mac), Learnt { port, at: now });
        if to == PortId::NONE {
            return None;
        }
        let found = self.learnt.get(&key(to))?;
        (now - found.at <= AGEING).then_some(found.port)
    }
}

impl World {
    /// A frame has come to switch number `index` through its port `into`.
    pub(crate) fn bridge<Q: EventQueue>(
        &mut self,
        index: u32,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let switch = &mut self.switches[index as usize];
        let packet = &mut self.packets[id];
        match switch.mode(into) {
            Some(PortMode::Access(vlan)) if packet.vlan == 0 => packet.vlan = *vlan,
            Some(PortMode::Trunk) if packet.vlan != 0 => {}
            _ => {
                self.counters.bad_vlan += 1;
                return self.packets.remove(id);
            }
        }
        let frame = *packet;
        let now = agenda.now();
        let known = switch.learn_and_find(now, frame.vlan, frame.src_mac, into, frame.dst_mac);
        if let Some(port) = known {
            if port == into {
                // Its station is where it came from.
                return self.packets.remove(id);
            }
            return self.put_out(index, port, id, agenda);
        }
        for place in 0..self.switches[index as usize].ports.len() {
            let (port, mode) = &self.switches[index as usize].ports[place];
            let member = match mode {
                PortMode::Access(vlan) => *vlan == frame.vlan,
                PortMode::Trunk => true,
            };
            let port = *port;
            if member && port != into {
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
