//! Trains: segments that a real kernel handed over in one piece.
//!
//! A kernel gives 64 KiB to its network card and lets the card segment them. To segment them here,
//! one by one, would cost most of a portal's throughput. So they travel whole as long as that
//! cannot be observed: a train takes the same time on a wire as its segments do, and counts as so
//! many packets in a queue. It is cut, without a copy of its bytes, if a link would be busy with it
//! for longer than 60 µs (at each hop after the first its first segment is late by that much at
//! most), if the queue has room for a part of it only, and if chance, CoDel or priorities decide
//! about packets one by one.

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::Duration;

use crate::packet::{Packet, PortId};
use crate::tables::slab::PacketId;
use crate::world::World;

/// Maximum time for which a link may be busy with one train: at 10 Gbit/s 64 KiB take 54 µs, at 1
/// Gbit/s four segments take 49 µs.
const TRAIN_TIME: Duration = Duration::from_us(60);

impl World {
    /// Puts a train on the link out of `port`, whole or in parts.
    #[cold]
    pub(crate) fn transmit_train<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = self.packets[id];
        let Some(train) = self.packets.buffers.get(packet.flow).train() else {
            return self.transmit_one(port, id, agenda);
        };
        let segment = u32::from(packet.segment_header()) + u32::from(train.payload_bytes);
        let link = &mut self.links[port];
        let most = link.train_of(segment, TRAIN_TIME);
        let room = link.room(agenda.now(), &self.packets);
        let count = packet.segments();
        if count <= most && count <= room {
            return self.transmit_one(port, id, agenda);
        }
        let admitted = count.min(room);
        link.stats.dropped += u64::from(count - admitted);
        let mut first = 0;
        while first < admitted {
            let length = most.min(admitted - first);
            let part = self.piece(&packet, first, length);
            let part = self.packets.insert(part);
            self.transmit_one(port, part, agenda);
            first += length;
        }
        self.packets.remove(id);
    }

    /// Returns `count` segments of a train, from its `first` on.
    pub(crate) fn piece(&self, train: &Packet, first: u32, count: u32) -> Packet {
        let header = train.segment_header();
        let whole = self.packets.buffers.get(train.flow).train();
        let each = whole.map_or(0, |train| u32::from(train.payload_bytes));
        let payload = u32::from(train.size - header);
        let size = payload.saturating_sub(first * each).min(count * each);
        let mut part = *train;
        part.size = header + size as u16;
        part.set_segments(train.seq + first, count, header);
        part
    }
}
