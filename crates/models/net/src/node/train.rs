//! Trains: TCP segments that a real kernel has passed to its network card in one piece.
//!
//! A kernel passes up to 64 KiB to its network card, which divides them into segments. Dividing
//! them here would cost most of a portal's throughput. A train therefore travels as one
//! packet where the difference cannot be observed: on a wire it takes the same time as its
//! segments, and in a queue it counts as that many packets. A train is divided, without copying its
//! bytes, in three cases. The link would be busy with it for longer than 60 µs (after the first
//! hop, the first segment is late by at most that much). The queue has room for a part of it only.
//! Or chance, CoDel or priorities decide about each packet separately.

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::Duration;
use timeloom_time::convert::low_u16;

use crate::packet::{Packet, PortId};
use crate::tables::slab::PacketId;
use crate::world::World;

/// Maximum time for which a link may be busy with one train. At 10 Gbit/s, 64 KiB take 54 µs; at 1
/// Gbit/s, four segments take 49 µs.
const TRAIN_TIME: Duration = Duration::from_us(60);

impl World {
    /// Puts a train on the link out of `port`, as one packet or in parts.
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

    /// Returns a train of `count` segments of `train`, from its segment number `first` on.
    pub(crate) fn piece(&self, train: &Packet, first: u32, count: u32) -> Packet {
        let header = train.segment_header();
        let whole = self.packets.buffers.get(train.flow).train();
        let each = whole.map_or(0, |train| u32::from(train.payload_bytes));
        let payload = u32::from(train.size - header);
        let size = payload.saturating_sub(first * each).min(count * each);
        let mut part = *train;
        part.size = header + low_u16(size.into());
        part.set_segments(train.seq + first, count, header);
        part
    }
}
