//! Connection to an engine in another thread of this process: unencoded packets in shared memory.
//!
//! Each direction has two rings (of the crate `rtrb`) instead of a socket, one for packets and one
//! for the bytes of real packets. Packets are neither encoded nor sealed, since they stay within
//! the process. They are not batched, since a transfer needs no system call. A full ring drops
//! packets, as a socket would, and counts them. A sleeping receiver is woken ([`crate::peering::bell`]).
//!
//! So that the other engine can detect its presence, each engine regularly writes the time of the
//! clock that all threads of a machine share, and a special value when it leaves.
//!
//! Engines that wait for one another also publish promises here: an instant before which no further
//! packet will arrive ([`promise`]).

mod neighbour;
mod promise;

pub(crate) use neighbour::Neighbour;
use promise::Promise;

use core::sync::atomic::{AtomicI64, Ordering};
use std::io;
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use timeloom_net::{Packet, PacketKind};
use timeloom_time::{Instant, Wall};

use crate::peering::bell::Bell;
use crate::peering::exact::PacketBatch;

/// One end of a connection between two threads. Packets put into one end come out at the other.
#[derive(Debug)]
pub struct Ring {
    out: Producer<Packet>,
    out_bytes: Producer<u8>,
    into: Consumer<Packet>,
    into_bytes: Consumer<u8>,
    ours: Arc<Side>,
    theirs: Arc<Side>,
}

/// State of one end, which both ends can read.
#[derive(Debug)]
struct Side {
    /// Time of the engine's last sign of life, in nanoseconds of the wall clock. The value is
    /// [`NOBODY`] before the first one, and [`FAREWELL`] after the engine has left.
    seen: AtomicI64,
    /// Promise of this engine: an instant before which it sends no further packet.
    promise: Promise,
    bell: Bell,
}

const NOBODY: i64 = i64::MIN;
/// Value of `seen` after a farewell, which means that no packet is missing.
const FAREWELL: i64 = i64::MIN + 1;
/// Number of bytes for real packets per packet of capacity. Where there are many packets, few of
/// them are real. Unused space takes no memory.
const BYTES_EACH: usize = 256;

impl Side {
    fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            seen: AtomicI64::new(NOBODY),
            promise: Promise::new(),
            bell: Bell::new()?,
        }))
    }
}

impl Ring {
    /// Capacity in packets that is enough unless the other thread gets no processor for
    /// milliseconds. It takes two MiB for packets in each direction, and eight MiB for bytes.
    pub const PACKETS: usize = 1 << 15;

    /// Creates both ends of a connection with room for `packets` packets in each direction.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn pair(packets: usize) -> io::Result<(Self, Self)> {
        let packets = packets.max(1);
        // The largest packet must fit, however small the capacity is.
        let bytes = (packets * BYTES_EACH).max(1 << 16);
        let (out, into) = RingBuffer::new(packets);
        let (out_bytes, into_bytes) = RingBuffer::new(bytes);
        let (back, from_back) = RingBuffer::new(packets);
        let (back_bytes, from_back_bytes) = RingBuffer::new(bytes);
        let (one, other) = (Side::new()?, Side::new()?);
        Ok((
            Self {
                out,
                out_bytes,
                into: from_back,
                into_bytes: from_back_bytes,
                ours: Arc::clone(&one),
                theirs: Arc::clone(&other),
            },
            Self {
                out: back,
                out_bytes: back_bytes,
                into,
                into_bytes,
                ours: other,
                theirs: one,
            },
        ))
    }

    /// Marks this end as present although its thread has not started, so that the first packets of
    /// the other engine are not lost. For a caller that starts both threads.
    pub fn greet(&self, now: Instant<Wall>) {
        self.ours.seen.store(now.as_ns(), Ordering::Release);
    }

    /// Sends packets and the concatenated bytes of the real ones among them. Returns the number of
    /// packets for which there was no room.
    fn put(&mut self, batch: &PacketBatch) -> u64 {
        let fits =
            self.out.slots() >= batch.packets.len() && self.out_bytes.slots() >= batch.bytes.len();
        let mut full = 0;
        if fits {
            self.put_whole(&batch.packets, &batch.bytes);
        } else {
            batch.for_each(|packet, bytes| {
                if self.out.slots() > 0 && self.out_bytes.slots() >= bytes.len() {
                    self.put_whole(core::slice::from_ref(packet), bytes);
                } else {
                    full += 1;
                }
            });
        }
        full
    }

    /// Sends packets that fit. The bytes are written first, so that a receiver that finds a packet
    /// also finds its bytes.
    fn put_whole(&mut self, packets: &[Packet], bytes: &[u8]) {
        let bytes = self.out_bytes.push_entire_slice(bytes);
        let packets = self.out.push_entire_slice(packets);
        debug_assert!(bytes.is_ok() && packets.is_ok());
    }

    /// Appends at most `most` received packets to `batch`. They are copied as a block: the sender's
    /// core holds their cache lines, and fetching these one by one, between other work, costs more.
    fn take(&mut self, most: usize, batch: &mut PacketBatch) {
        let Ok(packets) = self.into.read_chunk(self.into.slots().min(most)) else {
            return;
        };
        let (first, second) = packets.as_slices();
        batch.packets.extend_from_slice(first);
        batch.packets.extend_from_slice(second);
        packets.commit_all();
        let real = |packet: &&Packet| packet.kind == PacketKind::Raw;
        let lengths = batch.packets.iter().filter(real);
        let bytes = lengths.map(|packet| usize::from(packet.size)).sum();
        if let Ok(bytes) = self.into_bytes.read_chunk(bytes) {
            let (first, second) = bytes.as_slices();
            batch.bytes.extend_from_slice(first);
            batch.bytes.extend_from_slice(second);
            bytes.commit_all();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.ours.seen.load(Ordering::Relaxed) != FAREWELL {
            self.ours.seen.store(NOBODY, Ordering::Release);
        }
        self.theirs.bell.ring();
    }
}

#[cfg(test)]
mod tests;
