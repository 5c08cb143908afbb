//! Strict priorities by IP precedence.

use crate::tables::slab::{Fifo, PacketId, Slab};

/// Eight first-in first-out lists, one per IP precedence (the three high bits of the type of
/// service, RFC 791). The non-empty list with the highest precedence is served first.
#[derive(Clone, Debug)]
pub(crate) struct Priority {
    lists: [Fifo; 8],
    limit: u32,
}

impl Priority {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            lists: [Fifo::EMPTY; 8],
            limit,
        }
    }

    pub(crate) fn enqueue(&mut self, id: PacketId, packets: &mut Slab) -> bool {
        let list = &mut self.lists[usize::from(packets[id].tos >> 5)];
        let room = list.len() < self.limit;
        if room {
            list.push(id, packets);
        }
        room
    }

    pub(crate) fn dequeue(&mut self, packets: &Slab) -> Option<PacketId> {
        let mut lists = self.lists.iter_mut().rev();
        lists.find_map(|list| list.pop(packets))
    }

    pub(crate) fn len(&self) -> u32 {
        self.lists.iter().map(Fifo::len).sum()
    }
}
