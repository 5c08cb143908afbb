//! State for real programs: the nodes open to them, and the packets waiting for them.

use std::collections::VecDeque;

use crate::packet::PortId;
use crate::tables::macs::Macs;
use crate::tables::slab::PacketId;

/// Kind of a node's opening to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Not open: only the model answers.
    No,
    /// Open to IP packets; the model resolves neighbours for it.
    Packets,
    /// Open to Ethernet frames: an external program speaks all protocols.
    Frames,
}

/// Queue of packets to be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    /// Packets for hosts that are open to packets, by node.
    Packets,
    /// Frames for hosts that are open to frames, by node.
    Frames,
    /// Copies of packets that arrived at the ends of watched links, by port.
    Captured,
}

/// Openings to the outside, and waiting packets.
#[derive(Debug)]
pub(crate) struct Outside {
    /// By node.
    opened: Vec<Opened>,
    outboxes: [Waiting; 3],
    /// By port: true if packets that leave through it are watched. Empty if no port is watched.
    watched: Vec<bool>,
    pub(crate) macs: Macs,
    /// Packet being processed; kept so that none has to be allocated.
    scratch: Vec<u8>,
}

/// Packets to be taken out, with their node or port, and their sizes.
#[derive(Debug, Default)]
struct Waiting {
    list: VecDeque<(u32, PacketId, u16)>,
    bytes: usize,
}

/// Maximum of waiting packets; beyond, packets are dropped and counted, so that a reader that has
/// stopped reading costs no memory.
const PACKETS_AT_MOST: usize = 65_536;
const BYTES_AT_MOST: usize = 64 << 20;

impl Outside {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            opened: vec![Opened::No; nodes],
            outboxes: Default::default(),
            watched: Vec::new(),
            macs: Macs::default(),
            scratch: Vec::new(),
        }
    }

    /// Returns the state for a part of a network: no node is open there yet.
    pub(crate) fn part(&self) -> Self {
        Self {
            macs: self.macs.clone(),
            ..Self::new(self.opened.len())
        }
    }

    pub(crate) fn open(&mut self, node: u32, how: Opened) {
        self.opened[node as usize] = how;
    }

    #[inline]
    pub(crate) fn opened(&self, node: u32) -> Opened {
        self.opened[node as usize]
    }

    /// Copies packets that leave through `port`, one of `ports` ports, from now on.
    pub(crate) fn watch(&mut self, port: PortId, ports: usize) {
        self.watched.resize(ports, false);
        self.watched[port.index()] = true;
    }

    #[inline]
    pub(crate) fn is_watched(&self, port: PortId) -> bool {
        self.watched.get(port.index()) == Some(&true)
    }

    /// Queues a packet of this many bytes for a node or port; returns false if too many are
    /// waiting.
    pub(crate) fn push(&mut self, outbox: Outbox, of: u32, id: PacketId, bytes: u16) -> bool {
        let waiting = &mut self.outboxes[outbox as usize];
        let has_room = waiting.list.len() < PACKETS_AT_MOST && waiting.bytes < BYTES_AT_MOST;
        if has_room {
            waiting.list.push_back((of, id, bytes));
            waiting.bytes += usize::from(bytes);
        }
        has_room
    }

    /// Returns the packet that has waited longest, with its node or port.
    pub(crate) fn pop(&mut self, outbox: Outbox) -> Option<(u32, PacketId)> {
        let waiting = &mut self.outboxes[outbox as usize];
        let (of, id, bytes) = waiting.list.pop_front()?;
        waiting.bytes -= usize::from(bytes);
        Some((of, id))
    }

    /// Returns the node or port of the packet that has waited longest.
    pub(crate) fn first(&self, outbox: Outbox) -> Option<u32> {
        let (of, ..) = self.outboxes[outbox as usize].list.front()?;
        Some(*of)
    }

    /// Returns true if a packet waits there.
    pub(crate) fn has(&self, outbox: Outbox) -> bool {
        !self.outboxes[outbox as usize].list.is_empty()
    }

    /// Takes the buffer for writing a packet, with its last content; return it with
    /// [`Outside::return_scratch`].
    #[inline]
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.scratch)
    }

    #[inline]
    pub(crate) fn return_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_comes_out_in_order_each_kind_for_itself() {
        let mut outside = Outside::new(2);
        for id in 0..3 {
            assert!(outside.push(Outbox::Packets, 1, PacketId(id), 100));
        }
        assert!(outside.push(Outbox::Captured, 5, PacketId(9), 100));
        assert_eq!(outside.pop(Outbox::Frames), None);
        assert_eq!(outside.pop(Outbox::Captured), Some((5, PacketId(9))));
        let out = core::iter::from_fn(|| outside.pop(Outbox::Packets));
        assert!(out.eq((0..3).map(|id| (1, PacketId(id)))));
    }

    #[test]
    fn nothing_more_waits_for_a_reader_that_has_stopped() {
        for bytes in [1, 60_000] {
            let mut outside = Outside::new(1);
            let let_in =
                (0..100_000).take_while(|id| outside.push(Outbox::Frames, 0, PacketId(*id), bytes));
            let most = PACKETS_AT_MOST.min(BYTES_AT_MOST.div_ceil(usize::from(bytes)));
            assert_eq!(let_in.count(), most, "{bytes} bytes each");
            assert!(
                outside.push(Outbox::Packets, 0, PacketId(0), bytes),
                "others wait apart"
            );
            assert!(outside.pop(Outbox::Frames).is_some());
            assert!(outside.push(Outbox::Frames, 0, PacketId(0), bytes));
        }
    }

    #[test]
    fn nodes_are_closed_and_ports_unwatched_until_somebody_asks() {
        let mut outside = Outside::new(2);
        assert!(outside.opened(1) == Opened::No && !outside.is_watched(PortId(3)));
        outside.open(1, Opened::Frames);
        outside.watch(PortId(3), 4);
        assert!(outside.opened(0) == Opened::No && outside.opened(1) == Opened::Frames);
        assert!(outside.is_watched(PortId(3)) && !outside.is_watched(PortId(2)));
    }
}
