//! Packets that leave for other engines, and the owners of nodes.

use std::sync::Arc;

use timeloom_time::{Duration, Instant, Virtual};

use crate::ids::Node;
use crate::packet::{Packet, PacketKind, PortId};

/// Number of an engine, as owner of a node.
pub type Owner = u16;

/// Packets that leave for other engines, with the owner of each node.
#[derive(Debug, Default)]
pub struct Crossings {
    /// Packets in the order in which they left. [`Packet::link`] is the cut link, [`Packet::at`]
    /// the arrival at its end.
    pub packets: Vec<Packet>,
    /// Bytes of the real packets among them: `size` bytes each, in the same order.
    pub bytes: Vec<u8>,
    /// Owner by node; `None` while this engine has all nodes.
    owners: Option<Arc<[Owner]>>,
    here: Owner,
    lost: u64,
    arrivals: Option<Vec<Arrival>>,
}

/// Record of a packet that arrived at its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Instant of arrival.
    pub at: Instant<Virtual>,
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Number of the packet's flow or source.
    pub flow: u32,
    /// Sequence number of the packet, as in [`Packet::seq`].
    pub seq: u32,
}

impl Crossings {
    /// Sets the owners of all nodes; this engine is `here`.
    pub(crate) fn keep_only(&mut self, owners: &Arc<[Owner]>, here: Owner) {
        self.owners = Some(Arc::clone(owners));
        self.here = here;
    }

    #[inline]
    pub(crate) fn owns(&self, node: u32) -> bool {
        let owners = self.owners.as_ref();
        let owner = owners.and_then(|owners| owners.get(node as usize));
        owner.is_none_or(|owner| *owner == self.here)
    }

    /// Returns the engine that has a node; `None` if there is only one engine.
    pub(crate) fn owner(&self, node: u32) -> Option<Owner> {
        self.owners.as_ref()?.get(node as usize).copied()
    }

    /// Adds a packet that leaves, with its bytes if it is a real packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.packets.push(packet);
    }

    /// Counts a packet that was lost instead of leaving.
    pub(crate) fn count_lost(&mut self) {
        self.lost += 1;
    }

    /// Records arrivals at hosts from now on.
    pub(crate) fn note_arrivals(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    #[inline]
    pub(crate) fn note_arrival(&mut self, packet: &Packet, now: Instant<Virtual>) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(Arrival {
                at: now,
                kind: packet.kind,
                flow: packet.flow,
                seq: packet.seq,
            });
        }
    }

    pub(crate) fn notes_arrivals(&self) -> bool {
        self.arrivals.is_some()
    }

    pub(crate) fn arrivals(&self) -> &[Arrival] {
        self.arrivals.as_deref().unwrap_or_default()
    }

    /// Removes the packets that have left; must be called after they have been passed on.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }

    /// Returns the number of packets that were lost on cut links, and therefore did not leave.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// A direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Port at the sending end.
    pub port: PortId,
    /// Node at the sending end.
    pub from: Node,
    /// Node at the receiving end.
    pub to: Node,
    /// Shortest propagation delay, with all planned changes: the minimum time of a packet on the
    /// cable.
    pub delay: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_are_local_until_they_are_distributed() {
        let mut crossings = Crossings::default();
        assert!(crossings.owns(0) && crossings.owns(9));
        crossings.keep_only(&[0, 1, 0].into(), 1);
        assert!(crossings.owns(1) && !crossings.owns(0) && !crossings.owns(2));
    }

    #[test]
    fn clearing_forgets_packets_and_keeps_counts() {
        let mut crossings = Crossings::default();
        let packet = Packet::new(PacketKind::Udp, PortId(0), PortId(1), 3, 100);
        crossings.push(packet, b"abc");
        crossings.count_lost();
        assert_eq!(
            (crossings.packets.len(), &crossings.bytes[..]),
            (1, &b"abc"[..])
        );
        crossings.clear();
        assert!(crossings.packets.is_empty() && crossings.bytes.is_empty());
        assert_eq!(crossings.lost(), 1);
    }

    #[test]
    fn arrivals_are_noted_only_on_request() {
        let mut crossings = Crossings::default();
        let packet = Packet::new(PacketKind::Udp, PortId(0), PortId(1), 3, 100);
        crossings.note_arrival(&packet, Instant::ZERO);
        assert!(crossings.arrivals().is_empty());
        crossings.note_arrivals();
        crossings.note_arrival(&packet, Instant::ZERO);
        assert_eq!(crossings.arrivals()[0].flow, 3);
    }
}
