//! What leaves for other engines, and which nodes are here.

use std::sync::Arc;

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
    /// By node; none while all are here.
    owners: Option<Arc<[Owner]>>,
    here: Owner,
    lost: u64,
    arrivals: Option<Vec<Arrival>>,
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
    /// Engine `here` has its own of the nodes, of which `owners` says whose they are.
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

    /// Which engine has a node, where there are several.
    pub(crate) fn owner(&self, node: u32) -> Option<Owner> {
        self.owners.as_ref()?.get(node as usize).copied()
    }

    /// A packet leaves, with the bytes that it carries.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.packets.push(packet);
    }

    /// A packet does not leave.
    pub(crate) fn count_lost(&mut self) {
        self.lost += 1;
    }

    /// Notes from now on what comes to its host.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_are_here_until_somebody_shares_them_out() {
        let mut crossings = Crossings::default();
        assert!(crossings.owns(0) && crossings.owns(9));
        crossings.keep_only(&[0, 1, 0].into(), 1);
        assert!(crossings.owns(1) && !crossings.owns(0) && !crossings.owns(2));
    }

    #[test]
    fn what_left_is_forgotten_and_what_was_counted_is_not() {
        let mut crossings = Crossings::default();
        let packet = Packet::new(Kind::Udp, PortId(0), PortId(1), 3, 100);
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
    fn arrivals_are_noted_once_somebody_wants_them() {
        let mut crossings = Crossings::default();
        let packet = Packet::new(Kind::Udp, PortId(0), PortId(1), 3, 100);
        crossings.note_arrival(&packet, Instant::ZERO);
        assert!(crossings.arrivals().is_empty());
        crossings.note_arrivals();
        crossings.note_arrival(&packet, Instant::ZERO);
        assert_eq!(crossings.arrivals()[0].flow, 3);
    }
}
