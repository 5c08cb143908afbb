//! What leaves for other engines, and which nodes are here.

use timeloom_time::{Duration, Instant, Virtual};

use crate::ids::Node;
use crate::packet::{Kind, Packet, PortId};

/// The number of the engine that has a node.
pub type Owner = u16;

/// What leaves for other engines, and which nodes are here.
#[derive(Debug, Default)]
pub struct Crossings {
    /// Packets, in the order in which they left. [`Packet::link`] says by
    /// which link, [`Packet::at`] when they arrive at its end.
    pub packets: Vec<Packet>,
    /// What real packets carry: `size` bytes each, in the order of `packets`.
    pub bytes: Vec<u8>,
    /// By node; empty while all are here.
    pub(crate) owners: Vec<Owner>,
    pub(crate) here: Owner,
    /// By port: whether the link out of it is cut; empty as above.
    pub(crate) cut: Vec<bool>,
    pub(crate) lost: u64,
    pub(crate) arrivals: Option<Vec<Arrival>>,
}

/// A packet that came to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant<Virtual>,
    /// What it was.
    pub kind: Kind,
    /// Its flow or source.
    pub flow: u32,
    /// Its number; see [`Packet::seq`].
    pub seq: u32,
}

impl Crossings {
    #[inline]
    pub(crate) fn is_cut(&self, port: PortId) -> bool {
        self.cut.get(port.index()).copied().unwrap_or(false)
    }

    #[inline]
    pub(crate) fn owns(&self, node: u32) -> bool {
        let owner = self.owners.get(node as usize);
        owner.is_none_or(|owner| *owner == self.here)
    }

    /// Forgets what has left; to be called once it has been sent.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }

    /// Packets that were lost on a cut link, and so never left.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Where it begins.
    pub port: PortId,
    /// The node there.
    pub from: Node,
    /// The node at its end.
    pub to: Node,
    /// Its propagation delay: what leaves on it arrives no sooner.
    pub delay: Duration,
}
