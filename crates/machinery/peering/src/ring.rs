//! The line to an engine on another thread of this process: packets as they are,
//! in shared memory.
//!
//! In place of a socket there are two rings (the crate `rtrb`) in each direction, one of
//! packets and one of the bytes that real packets carry. Nothing is coded and
//! nothing sealed, since nobody is in between; no packet waits for others, since
//! handing over costs no system call. A ring that is full drops what comes, as a
//! socket would, and counts it. Who sleeps is rung awake ([`crate::bell`]).
//!
//! Whether the other engine is here: it leaves a sign of life now and then, on the
//! clock that all threads of a machine share, and one that it goes.
//!
//! Engines that wait for one another also leave promises here: before which instant
//! nothing more will come ([`promise`]).

mod neighbour;
mod promise;

pub(crate) use neighbour::Neighbour;
use promise::Promise;

use core::sync::atomic::{AtomicI64, Ordering};
use std::io;
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use timeloom_net::{Kind, Packet};
use timeloom_time::{Instant, Wall};

use crate::bell::Bell;
use crate::exact::Batch;

/// One end of a line between two threads. What one end puts in comes out at the other.
#[derive(Debug)]
pub struct Ring {
    out: Producer<Packet>,
    out_bytes: Producer<u8>,
    into: Consumer<Packet>,
    into_bytes: Consumer<u8>,
    ours: Arc<Side>,
    theirs: Arc<Side>,
}

/// What both ends know of one.
#[derive(Debug)]
struct Side {
    /// When it last showed itself, ns on the wall clock; [`NOBODY`] before it has,
    /// and once it has gone.
    seen: AtomicI64,
    /// Before which instant nothing more comes from it.
    promise: Promise,
    bell: Bell,
}

const NOBODY: i64 = i64::MIN;
/// In its place once it has said farewell: nothing is missing.
const FAREWELL: i64 = i64::MIN + 1;
/// Bytes of real packets for each packet that fits: few packets are real where
/// there are many. What is not used is no memory.
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
    /// Room that suffices unless the other thread gets no processor for milliseconds:
    /// two MiB of packets in each direction, and eight for bytes.
    pub const PACKETS: usize = 1 << 15;

    /// Both ends of a line with room for so many packets in each direction.
    ///
    /// # Errors
    ///
    /// When the kernel has no descriptors left.
    pub fn pair(packets: usize) -> io::Result<(Self, Self)> {
        let packets = packets.max(1);
        // The largest packet must fit, however few fit.
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

    /// Counts as here from now on, though its thread has not begun: so that what the
    /// other engine sends first is not lost. For whoever starts both.
    pub fn greet(&self, now: Instant<Wall>) {
        self.ours.seen.store(now.as_ns(), Ordering::Release);
    }

    /// Puts in packets, and the bytes of the real ones among them one after the
    /// other; gives back how many found no room.
    fn put(&mut self, batch: &Batch) -> u64 {
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

    /// What has room. Bytes first: who finds a packet finds its bytes.
    fn put_whole(&mut self, packets: &[Packet], bytes: &[u8]) {
        let bytes = self.out_bytes.push_entire_slice(bytes);
        let packets = self.out.push_entire_slice(packets);
        debug_assert!(bytes.is_ok() && packets.is_ok());
    }

    /// Adds what has come to `batch`, at most so many packets. In one go: the lines
    /// are in the other core's cache, and fetching them one by one in between other
    /// work costs more.
    fn take(&mut self, most: usize, batch: &mut Batch) {
        let Ok(packets) = self.into.read_chunk(self.into.slots().min(most)) else {
            return;
        };
        let (first, second) = packets.as_slices();
        batch.packets.extend_from_slice(first);
        batch.packets.extend_from_slice(second);
        packets.commit_all();
        let real = |packet: &&Packet| packet.kind == Kind::Raw;
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
