//! State for real programs: hosts that are open to them, and packets that wait for them.

use std::collections::VecDeque;

use timeloom_time::{Instant, Virtual};

use crate::ids::Node;
use crate::packet::PortId;
use crate::tables::macs::Macs;
use crate::tables::slab::PacketId;

/// Access of real programs to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Not open: the model answers for the host.
    No,
    /// Open for IP packets: the model resolves neighbours for the host.
    Packets,
    /// Open for Ethernet frames: an external program speaks all protocols.
    Frames,
}

/// Queue of packets for real programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    /// IP packets for hosts that are open for packets; numbers are nodes.
    Packets,
    /// Frames for hosts that are open for frames; numbers are nodes.
    Frames,
    /// Copies of packets from the ends of watched links; numbers are ports.
    Captured,
}

/// Hosts that are open to real programs, and packets that wait for these programs.
#[derive(Debug)]
pub(crate) struct Outside {
    /// Access of real programs, by node.
    opened: Vec<Opened>,
    outboxes: [Waiting; 3],
    /// By port: true if packets on the link out of this port are watched. Empty if no port is
    /// watched.
    watched: Vec<bool>,
    pub(crate) macs: Macs,
    /// Departures of stamped frames that were not taken yet: node, tag and instant.
    departures: VecDeque<(Node, u64, Option<Instant<Virtual>>)>,
    /// Buffer for a packet that is being written, kept to avoid allocations.
    scratch: Vec<u8>,
}

/// Waiting packets, with their node or port, and their total size.
#[derive(Debug, Default)]
struct Waiting {
    list: VecDeque<(u32, PacketId, u16)>,
    bytes: usize,
}

/// Maximum number of waiting packets. More are dropped and counted, so that a program that has
/// stopped reading does not use up memory.
const PACKETS_AT_MOST: usize = 65_536;
const BYTES_AT_MOST: usize = 64 << 20;

impl Outside {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            opened: vec![Opened::No; nodes],
            outboxes: Default::default(),
            watched: Vec::new(),
            macs: Macs::default(),
            departures: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the state for a part of a network; no node of it is open yet.
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

    /// Copies packets on the link out of `port` from now on; `ports` is the number of ports.
    pub(crate) fn watch(&mut self, port: PortId, ports: usize) {
        self.watched.resize(ports, false);
        self.watched[port.index()] = true;
    }

    #[inline]
    pub(crate) fn is_watched(&self, port: PortId) -> bool {
        self.watched.get(port.index()) == Some(&true)
    }

    /// Queues a packet of `bytes` bytes for node or port `of`; returns false if too many packets
    /// wait.
    pub(crate) fn push(&mut self, outbox: Outbox, of: u32, id: PacketId, bytes: u16) -> bool {
        let waiting = &mut self.outboxes[outbox as usize];
        let has_room = waiting.list.len() < PACKETS_AT_MOST && waiting.bytes < BYTES_AT_MOST;
        if has_room {
            waiting.list.push_back((of, id, bytes));
            waiting.bytes += usize::from(bytes);
        }
        has_room
    }

    /// Removes and returns the packet that has waited longest, with its node or port.
    pub(crate) fn pop(&mut self, outbox: Outbox) -> Option<(u32, PacketId)> {
        let waiting = &mut self.outboxes[outbox as usize];
        let (of, id, bytes) = waiting.list.pop_front()?;
        waiting.bytes -= usize::from(bytes);
        Some((of, id))
    }

    /// Returns the packet that has waited longest, with its node or port.
    pub(crate) fn first(&self, outbox: Outbox) -> Option<(u32, PacketId)> {
        let (of, id, _) = self.outboxes[outbox as usize].list.front()?;
        Some((*of, *id))
    }

    /// Returns true if a packet waits in this queue.
    pub(crate) fn has(&self, outbox: Outbox) -> bool {
        !self.outboxes[outbox as usize].list.is_empty()
    }

    /// Records that a stamped frame has left a host at `at`, or was dropped (`None`).
    pub(crate) fn note_departure(&mut self, node: Node, tag: u64, at: Option<Instant<Virtual>>) {
        self.departures.push_back((node, tag, at));
    }

    /// Returns true if a departure was not taken yet.
    pub(crate) fn has_departure(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Removes and returns the first departure that was not taken yet.
    pub(crate) fn take_departure(&mut self) -> Option<(Node, u64, Option<Instant<Virtual>>)> {
        self.departures.pop_front()
    }

    /// Takes the buffer for writing a packet; it still has its last content. The caller must return
    /// it with [`Outside::return_scratch`].
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
    fn waiting_packets_leave_in_order_by_kind() {
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
    fn nodes_are_closed_and_ports_unwatched_until_requested() {
        let mut outside = Outside::new(2);
        assert!(outside.opened(1) == Opened::No && !outside.is_watched(PortId(3)));
        outside.open(1, Opened::Frames);
        outside.watch(PortId(3), 4);
        assert!(outside.opened(0) == Opened::No && outside.opened(1) == Opened::Frames);
        assert!(outside.is_watched(PortId(3)) && !outside.is_watched(PortId(2)));
    }
}
