//! Encoding of the packets of one window as bytes. It is for exact runs whose engines are different
//! processes, over any transport.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | earliest pending instant of the sender, in ns, little-endian |
//! | number | number of packets |
//! | | their records ([`crate::peering::codec`]), instants relative to the earliest |
//! | rest | concatenated bytes of the real packets |
//!
//! Unlike a datagram, a message has no seal, so the transport must exclude other senders.

use timeloom_net::{PacketKind, World};
use timeloom_time::{Instant, Virtual};

use crate::peering::codec::{DecodeError, Decoder, Encoder, Statics};
use crate::peering::exact::PacketBatch;
use crate::peering::varint;

/// Encoder and decoder of the messages between the engines of one network.
#[derive(Clone, Debug)]
pub struct Messages {
    statics: Statics,
    encoder: Encoder,
    decoder: Decoder,
}

impl Messages {
    /// Creates a codec for `world`. The world must have all its traffic and be equal in all
    /// engines.
    pub fn of(world: &World) -> Self {
        Self {
            statics: Statics::of(world),
            encoder: Encoder::default(),
            decoder: Decoder::default(),
        }
    }

    /// Appends the message with `next`, the engine's earliest instant, and the packets of `batch`
    /// to `out`.
    pub fn write(&mut self, next: Instant<Virtual>, batch: &PacketBatch, out: &mut Vec<u8>) {
        out.extend_from_slice(&next.as_ns().to_le_bytes());
        varint::put(out, batch.packets.len() as u64);
        self.encoder.begin(next);
        for packet in &batch.packets {
            self.encoder.put(packet, &self.statics, out);
        }
        out.extend_from_slice(&batch.bytes);
    }

    /// Appends the packets of a message to `batch`; returns the sender's earliest instant.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a message of this network. The content of `batch` is then
    /// unspecified.
    pub fn read(
        &mut self,
        message: &[u8],
        batch: &mut PacketBatch,
    ) -> Result<Instant<Virtual>, DecodeError> {
        let (next, mut rest) = message.split_first_chunk().ok_or(DecodeError)?;
        let next = Instant::from_ns(i64::from_le_bytes(*next));
        let count = varint::take(&mut rest)?;
        self.decoder.begin(next);
        let mut carried = 0;
        for _ in 0..count {
            let packet = self.decoder.take(&mut rest, &self.statics)?;
            if packet.kind == PacketKind::Raw {
                carried += usize::from(packet.size);
            }
            batch.packets.push(packet);
        }
        if rest.len() != carried {
            return Err(DecodeError);
        }
        batch.bytes.extend_from_slice(rest);
        Ok(next)
    }
}
