//! Ports of Ethernet switches, and learnt addresses.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::PortId;

/// Mode of a switch's port for VLAN tags (IEEE 802.1Q).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMode {
    /// The port has untagged frames only, which belong to this VLAN.
    Access(u16),
    /// The port has tagged frames of all VLANs.
    Trunk,
}

impl PortMode {
    /// Returns true if frames of a VLAN may leave by a port with this mode.
    #[inline]
    pub(crate) fn carries(&self, vlan: u16) -> bool {
        match self {
            Self::Access(own) => *own == vlan,
            Self::Trunk => true,
        }
    }
}

/// An Ethernet switch with the addresses that it has learnt.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    ports: Vec<(PortId, PortMode)>,
    learnt: HashMap<u64, Learnt, BuildHasherDefault<Mixer>>,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    port: PortId,
    at: Instant<Virtual>,
}

/// Time after which a learnt address is removed: the default of IEEE 802.1Q, table 8-6.
const AGEING: Duration = Duration::from_s(300);

/// Hash of one number without a random key, so that it is the same in every run.
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

    /// Returns an empty entry, for a switch of another engine.
    pub(crate) fn elsewhere() -> Self {
        Self::new(Vec::new())
    }

    pub(crate) fn mode(&self, port: PortId) -> Option<&PortMode> {
        let mut ports = self.ports.iter();
        ports
            .find(|(other, _)| *other == port)
            .map(|(_, mode)| mode)
    }

    /// Returns the ports with their modes, in the order of the cables.
    #[inline]
    pub(crate) fn ports(&self) -> &[(PortId, PortMode)] {
        &self.ports
    }

    /// Returns the VLAN of a frame that has arrived at `port`; `vlan` is its tag, 0 without one.
    /// Returns `None` if the port does not accept the tag.
    #[inline]
    pub(crate) fn classify(&self, port: PortId, vlan: u16) -> Option<u16> {
        match self.mode(port)? {
            PortMode::Access(own) if vlan == 0 => Some(*own),
            PortMode::Trunk if vlan != 0 => Some(vlan),
            _ => None,
        }
    }

    /// Learns that `mac` is behind `port`, where the frame has arrived. Returns the port behind
    /// which `to` is; `None` for broadcast, and if it is unknown.
    pub(crate) fn learn_and_find(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Instant<Virtual> {
        Instant::ZERO + Duration::from_s(s)
    }

    /// Returns a switch with ports 0 and 2 in VLAN 1, port 4 in VLAN 2, and port 6 as trunk.
    fn switch() -> Switch {
        let modes = [
            PortMode::Access(1),
            PortMode::Access(1),
            PortMode::Access(2),
            PortMode::Trunk,
        ];
        let ports = modes.into_iter().enumerate();
        Switch::new(
            ports
                .map(|(at, mode)| (PortId(2 * at as u32), mode))
                .collect(),
        )
    }

    #[test]
    fn a_station_is_found_where_it_last_spoke_for_five_minutes() {
        let mut switch = switch();
        let (a, b) = (PortId(11), PortId(13));
        assert_eq!(switch.learn_and_find(at(0), 1, a, PortId(0), b), None);
        assert_eq!(
            switch.learn_and_find(at(0), 1, b, PortId(2), a),
            Some(PortId(0))
        );
        assert_eq!(
            switch.learn_and_find(at(300), 1, b, PortId(2), a),
            Some(PortId(0))
        );
        assert_eq!(
            switch.learn_and_find(at(301), 1, b, PortId(2), a),
            None,
            "too old"
        );
        switch.learn_and_find(at(301), 1, a, PortId(6), PortId::NONE);
        assert_eq!(
            switch.learn_and_find(at(301), 1, b, PortId(2), a),
            Some(PortId(6))
        );
        assert_eq!(
            switch.learn_and_find(at(301), 2, b, PortId(4), a),
            None,
            "another VLAN"
        );
    }

    #[test]
    fn access_ports_take_untagged_frames_and_trunks_tagged_ones() {
        let switch = switch();
        assert_eq!(switch.classify(PortId(4), 0), Some(2));
        assert_eq!(switch.classify(PortId(4), 2), None);
        assert_eq!(switch.classify(PortId(6), 7), Some(7));
        assert_eq!(switch.classify(PortId(6), 0), None);
        assert_eq!(switch.classify(PortId(8), 0), None, "no port of it");
        let carrying = switch.ports().iter().filter(|(_, mode)| mode.carries(1));
        assert!(carrying.map(|(port, _)| port.0).eq([0, 2, 6]));
    }
}
