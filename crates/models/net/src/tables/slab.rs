//! Storage of packets, and lists of packets.

use core::ops::{Index, IndexMut};

use timeloom_time::convert::number_of;

use crate::packet::{NIL, Packet, PacketKind, PortId};
use crate::tables::buffers::Buffers;

/// Index of a packet in its [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketId(pub(crate) u32);

/// All packets of a world. Storage is reused, so that nothing is allocated after the maximum number
/// of packets has been in flight.
#[derive(Debug)]
pub(crate) struct Slab {
    packets: Vec<Packet>,
    free: u32,
    live: usize,
    /// Bytes of real programs' packets.
    pub(crate) buffers: Buffers,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self {
            packets: Vec::new(),
            free: NIL,
            live: 0,
            buffers: Buffers::default(),
        }
    }

    /// Stores a packet and returns its index.
    ///
    /// The function is inlined so that the code which creates a packet writes the fields directly
    /// to their place. Otherwise the packet would be copied in wide pieces right after its fields
    /// were written, and the copy would wait until all earlier stores are complete. That takes long
    /// if these are to memory in another core's cache.
    #[inline(always)]
    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        self.live += 1;
        if packet.kind == PacketKind::Raw {
            self.buffers.share(packet.flow);
        }
        if self.free == NIL {
            self.grow();
        }
        let id = self.free;
        let place = &mut self.packets[id as usize];
        self.free = place.next;
        *place = packet;
        PacketId(id)
    }

    /// Adds storage for one packet.
    #[cold]
    fn grow(&mut self) {
        let none = PortId::NONE;
        self.free = number_of(self.packets.len());
        self.packets
            .push(Packet::new(PacketKind::Udp, none, none, 0, 0));
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: PacketId) {
        self.live -= 1;
        let place = &mut self.packets[id.0 as usize];
        if place.kind == PacketKind::Raw {
            self.buffers.release(place.flow);
        }
        place.next = self.free;
        self.free = id.0;
    }

    /// Returns the packet after this one in its list; `None` at the end.
    pub(crate) fn after(&self, id: PacketId) -> Option<PacketId> {
        let next = self[id].next;
        (next != NIL).then_some(PacketId(next))
    }

    pub(crate) fn live(&self) -> usize {
        self.live
    }
}

impl Index<PacketId> for Slab {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }
}

impl IndexMut<PacketId> for Slab {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
    }
}

/// First-in first-out list, whose links are stored in the packets themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
    len: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
        len: 0,
    };

    #[inline]
    pub(crate) fn push(&mut self, id: PacketId, packets: &mut Slab) {
        packets[id].next = NIL;
        if self.tail == NIL {
            self.head = id.0;
        } else {
            packets[PacketId(self.tail)].next = id.0;
        }
        self.tail = id.0;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self, packets: &Slab) -> Option<PacketId> {
        let id = self.first()?;
        self.head = packets[id].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        self.len -= 1;
        Some(id)
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<PacketId> {
        (self.head != NIL).then_some(PacketId(self.head))
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<PacketId> {
        (self.tail != NIL).then_some(PacketId(self.tail))
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}
