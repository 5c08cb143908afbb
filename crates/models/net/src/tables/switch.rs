//! An Ethernet switch's ports and what it has learnt.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::PortId;

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
    pub(crate) learnt: HashMap<u64, Learnt, BuildHasherDefault<Mixer>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Learnt {
    pub(crate) port: PortId,
    pub(crate) at: Instant<Virtual>,
}

/// IEEE 802.1Q, table 8-6: the default ageing time.
pub(crate) const AGEING: Duration = Duration::from_s(300);

/// Hashes one number without a random key: the same in every run.
#[derive(Default)]
pub(crate) struct Mixer(u64);

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
