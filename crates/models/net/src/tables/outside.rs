//! What belongs to real programs: which nodes are open to them, and what waits for them.

use std::collections::VecDeque;

use crate::tables::macs::Macs;
use crate::tables::slab::PacketId;

/// How a node is opened to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Not: the model is all there is.
    No,
    /// To IPv4 packets; the model speaks ARP for it.
    Packets,
    /// To Ethernet frames: somebody outside speaks all protocols.
    Frames,
}

/// What belongs to the outside, and what waits for it.
#[derive(Debug)]
pub(crate) struct Outside {
    /// By node.
    pub(crate) opened: Vec<Opened>,
    pub(crate) packets: Waiting,
    pub(crate) frames: Waiting,
    /// Copies of what arrived at the ends of links that are watched.
    pub(crate) seen: Waiting,
    /// By port: whether what leaves through it is watched. Empty when nothing
    /// is.
    pub(crate) watched: Vec<bool>,
    pub(crate) macs: Macs,
    /// The packet being worked on; kept so that none has to be allocated.
    pub(crate) scratch: Vec<u8>,
}

/// Packets that wait to be taken out, with the node or port they are for.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) list: VecDeque<(u32, PacketId)>,
    pub(crate) bytes: usize,
}

/// What may wait to be taken out; past this it is dropped and counted, so that
/// a reader that has stopped reading costs no memory.
pub(crate) const PACKETS_AT_MOST: usize = 65_536;

pub(crate) const BYTES_AT_MOST: usize = 64 << 20;

impl Outside {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            opened: vec![Opened::No; nodes],
            packets: Waiting::default(),
            frames: Waiting::default(),
            seen: Waiting::default(),
            watched: Vec::new(),
            macs: Macs::default(),
            scratch: Vec::new(),
        }
    }
}

impl Waiting {
    pub(crate) fn has_room(&self) -> bool {
        self.list.len() < PACKETS_AT_MOST && self.bytes < BYTES_AT_MOST
    }

    pub(crate) fn push(&mut self, place: u32, id: PacketId, size: u16) {
        self.list.push_back((place, id));
        self.bytes += usize::from(size);
    }
}
