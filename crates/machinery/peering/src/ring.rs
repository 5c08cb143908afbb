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

use core::sync::atomic::{AtomicI64, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use timeloom_net::{Kind, Owner, Packet};
use timeloom_time::{Instant, Wall};

use crate::bell::Bell;
use crate::exact::Batch;
use crate::peer::{PeerConfig, PeerEvent, PeerStats};

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
    bell: Bell,
}

const NOBODY: i64 = i64::MIN;
/// Bytes of real packets for each packet that fits: few packets are real where
/// there are many.
const BYTES_EACH: usize = 64;

impl Side {
    fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            seen: AtomicI64::new(NOBODY),
            bell: Bell::new()?,
        }))
    }
}

impl Ring {
    /// Room that suffices unless the other thread gets no processor for milliseconds:
    /// two MiB of packets in each direction, as much again for bytes.
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
        self.ours.seen.store(NOBODY, Ordering::Release);
        self.theirs.bell.ring();
    }
}

/// The engine at the other end of a [`Ring`].
#[derive(Debug)]
pub(crate) struct Neighbour {
    there: Owner,
    ring: Ring,
    config: PeerConfig,
    /// What goes with the next [`Neighbour::poll`].
    out: Batch,
    /// What has come.
    into: Batch,
    present: bool,
    spoke: Option<Instant<Wall>>,
    stats: PeerStats,
}

/// Packets taken in before the engine has its turn.
const BUDGET: usize = 4_096;

impl Neighbour {
    pub(crate) fn new(there: Owner, ring: Ring, config: PeerConfig) -> Self {
        Self {
            there,
            ring,
            config,
            out: Batch::default(),
            into: Batch::default(),
            present: false,
            spoke: None,
            stats: PeerStats::default(),
        }
    }

    pub(crate) fn there(&self) -> Owner {
        self.there
    }

    pub(crate) fn is_present(&self) -> bool {
        self.present
    }

    pub(crate) fn stats(&self) -> PeerStats {
        self.stats
    }

    pub(crate) fn config(&self) -> &PeerConfig {
        &self.config
    }

    /// A packet that is to go, with the next [`Neighbour::poll`].
    #[inline]
    pub(crate) fn put(&mut self, packet: &Packet, bytes: &[u8]) {
        if !self.present {
            self.stats.dropped_away += 1;
            return;
        }
        self.out.packets.push(*packet);
        self.out.bytes.extend_from_slice(bytes);
    }

    /// Hands what has come to `act`.
    pub(crate) fn receive(&mut self, act: impl FnMut(&Packet, &[u8])) {
        self.ring.take(BUDGET, &mut self.into);
        if !self.into.packets.is_empty() {
            self.stats.packets_received += self.into.packets.len() as u64;
            self.into.for_each(act);
            self.into.clear();
        }
    }

    /// Sends what was put in, shows that we are here, and looks whether the other
    /// one is.
    pub(crate) fn poll(&mut self, now: Instant<Wall>) -> Option<PeerEvent> {
        if !self.out.packets.is_empty() {
            let full = self.ring.put(&self.out);
            self.stats.packets_sent += self.out.packets.len() as u64 - full;
            self.stats.dropped_full += full;
            self.out.clear();
            self.ring.theirs.bell.ring();
        }
        let quiet = |spoke| now - spoke >= self.config.heartbeat;
        if self.spoke.is_none_or(quiet) {
            self.spoke = Some(now);
            self.ring.ours.seen.store(now.as_ns(), Ordering::Release);
        }
        let seen = self.ring.theirs.seen.load(Ordering::Acquire);
        let gone = seen == NOBODY;
        let silent = !gone && now - Instant::from_ns(seen) > self.config.silence;
        match (self.present, gone || silent) {
            (false, false) => {
                self.present = true;
                self.stats.joined += 1;
                Some(PeerEvent::Joined)
            }
            (true, true) => {
                self.present = false;
                self.stats.vanished += u64::from(silent);
                Some(PeerEvent::Left)
            }
            _ => None,
        }
    }

    /// Sends what is left and says farewell.
    pub(crate) fn close(&mut self, now: Instant<Wall>) {
        self.poll(now);
        self.ring.ours.seen.store(NOBODY, Ordering::Release);
        self.ring.theirs.bell.ring();
        self.present = false;
    }

    /// When [`Neighbour::poll`] has something to do even if nothing happens.
    pub(crate) fn next_wake(&self) -> Instant<Wall> {
        let spoke = self.spoke;
        spoke.map_or(Instant::ZERO, |spoke| spoke + self.config.heartbeat)
    }

    /// We are about to sleep on [`Neighbour::descriptor`]. False when something has
    /// come meanwhile.
    pub(crate) fn doze(&self) -> bool {
        self.ring.ours.bell.doze();
        self.ring.into.is_empty()
    }

    /// We are up again.
    pub(crate) fn wake(&self) {
        self.ring.ours.bell.wake();
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.ours.bell.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use timeloom_net::PortId;
    use timeloom_time::Duration;

    const NOW: Instant<Wall> = Instant::from_ns(1_000_000);

    /// The how-manieth packet; one in three is real.
    fn packet(number: u32) -> (Packet, Vec<u8>) {
        let kind = if number.is_multiple_of(3) {
            Kind::Raw
        } else {
            Kind::Udp
        };
        let size = 20 + (number % 50) as u16;
        let mut packet = Packet::new(kind, PortId(0), PortId(2), number, size);
        packet.seq = number;
        let real = kind == Kind::Raw;
        let bytes = vec![number as u8; if real { size.into() } else { 0 }];
        (packet, bytes)
    }

    /// Two that know of one another.
    fn pair(packets: usize) -> (Neighbour, Neighbour) {
        let (a, b) = Ring::pair(packets).unwrap();
        let config = PeerConfig::default();
        let (mut a, mut b) = (Neighbour::new(1, a, config), Neighbour::new(0, b, config));
        assert_eq!(a.poll(NOW), None, "nobody has shown itself");
        assert_eq!(b.poll(NOW), Some(PeerEvent::Joined));
        assert_eq!(a.poll(NOW), Some(PeerEvent::Joined));
        (a, b)
    }

    fn put(neighbour: &mut Neighbour, numbers: core::ops::Range<u32>) {
        for number in numbers {
            let (packet, bytes) = packet(number);
            neighbour.put(&packet, &bytes);
        }
        neighbour.poll(NOW);
    }

    /// The numbers that have come; each with the bytes that belong to it.
    fn taken(neighbour: &mut Neighbour) -> Vec<u32> {
        let mut numbers = Vec::new();
        neighbour.receive(|found, bytes| {
            let (expected, carried) = packet(found.seq);
            assert_eq!((found.kind, found.size), (expected.kind, expected.size));
            assert_eq!(bytes, carried);
            numbers.push(found.seq);
        });
        numbers
    }

    #[test]
    fn packets_come_out_at_the_other_thread_in_their_order_with_their_bytes() {
        let many = if cfg!(miri) { 60 } else { 200_000 };
        let (mut a, mut b) = pair(16);
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < many {
                let until = many.min(sent + 1 + sent % 7);
                put(&mut a, sent..until);
                sent = until;
                while a.ring.out.slots() < 8 || a.ring.out_bytes.slots() < 1_000 {
                    std::thread::yield_now();
                }
            }
            a.stats()
        });
        let mut next = 0;
        while next < many {
            for number in taken(&mut b) {
                assert_eq!(number, next);
                next += 1;
            }
            std::thread::yield_now();
        }
        let sent = sender.join().unwrap();
        assert_eq!((sent.packets_sent, sent.dropped_full), (many.into(), 0));
        assert_eq!(b.stats().packets_received, many.into());
    }

    #[test]
    fn what_finds_no_room_is_counted_and_leaves_no_bytes_behind() {
        let (mut a, mut b) = pair(4);
        put(&mut a, 0..10);
        assert_eq!((a.stats().packets_sent, a.stats().dropped_full), (4, 6));
        assert_eq!(taken(&mut b), [0, 1, 2, 3]);
        put(&mut a, 9..12);
        assert_eq!(taken(&mut b), [9, 10, 11]);
        // Bytes fill a ring as well: 64 KiB are two of these.
        let large = Packet::new(Kind::Raw, PortId(0), PortId(2), 0, 30_000);
        for _ in 0..3 {
            a.put(&large, &[7; 30_000]);
        }
        a.poll(NOW);
        assert_eq!(a.stats().dropped_full, 7);
        let mut sizes = Vec::new();
        b.receive(|_, bytes| sizes.push(bytes.len()));
        assert_eq!(sizes, [30_000; 2]);
    }

    #[test]
    fn one_that_goes_or_falls_silent_is_away() {
        let (mut a, mut b) = pair(4);
        b.close(NOW);
        assert_eq!(a.poll(NOW), Some(PeerEvent::Left));
        put(&mut a, 0..2);
        assert_eq!((a.stats().dropped_away, a.stats().vanished), (2, 0));

        let (mut a, mut b) = pair(4);
        let later = NOW + a.config().silence + Duration::from_ms(1);
        assert_eq!(a.poll(later), Some(PeerEvent::Left));
        assert_eq!(a.stats().vanished, 1);
        assert_eq!(b.poll(later), None, "it has heard of a just now");
        assert_eq!(a.poll(later), Some(PeerEvent::Joined));
        drop(b);
        assert_eq!(
            a.poll(later),
            Some(PeerEvent::Left),
            "dropped without a word"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no poll")]
    fn a_sleeper_is_woken_by_what_comes() {
        let (mut a, mut b) = pair(4);
        put(&mut a, 0..1);
        assert!(!b.doze(), "something is there");
        b.wake();
        assert_eq!(taken(&mut b), [0]);
        assert!(b.doze());
        put(&mut a, 1..2);
        let ready = |b: &Neighbour, timeout: Option<&Timespec>| {
            let mut asked = [PollFd::from_borrowed_fd(b.descriptor(), PollFlags::IN)];
            poll(&mut asked, timeout)
        };
        assert_eq!(ready(&b, None), Ok(1));
        b.wake();
        assert_eq!(taken(&mut b), [1]);
        // Who is awake is not rung.
        put(&mut a, 2..3);
        assert_eq!(ready(&b, Some(&Timespec::default())), Ok(0));
    }
}
