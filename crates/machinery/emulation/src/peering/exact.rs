//! Exact mode of engines: conservative windows.
//!
//! All engines agree on the earliest instant of all pending events. No event can affect another
//! engine before that instant plus the lookahead. So each engine runs up to that limit on its own;
//! then the engines exchange outgoing packets and agree again. (This is the time-window variant of
//! conservative simulation: Nicol, "The cost of conservative synchronization in parallel discrete
//! event simulations", 1993.)
//!
//! Events at the same instant are ordered by node and token, not by the engine they came from. The
//! history is therefore equal to that of a single engine to the last bit.
//!
//! The transport implements [`WindowExchange`]. [`Shared`] is for threads of one process. MPI (in `mpi/`,
//! a separate crate because of its dependencies) and others are for processes, and use the encoding
//! in [`crate::peering::message`].

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32};
use std::{thread, time};

use timeloom_engine::Engine;
use timeloom_engine::queue::EventQueue;
use timeloom_net::{Owner, Packet, PacketKind, World};
use timeloom_time::{Duration, Instant, Virtual};

use crate::peering::Cut;

/// Packets on their way from one engine to another.
#[derive(Clone, Debug, Default)]
pub struct PacketBatch {
    /// The packets, in the order in which they left the sending engine.
    pub packets: Vec<Packet>,
    /// Payload bytes of the real packets, concatenated in the same order.
    pub bytes: Vec<u8>,
}

impl PacketBatch {
    /// Removes all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }

    /// Calls `act` with each packet and its payload bytes, which are empty unless the packet is
    /// real.
    pub fn for_each(&self, mut act: impl FnMut(&Packet, &[u8])) {
        let mut rest = &self.bytes[..];
        for packet in &self.packets {
            let length = match packet.kind {
                PacketKind::Raw => usize::from(packet.size).min(rest.len()),
                _ => 0,
            };
            let (bytes, after) = rest.split_at(length);
            rest = after;
            act(packet, bytes);
        }
    }
}

/// Another engine stopped in the middle of a run, or the transport failed; the text states which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another engine of an exact run has ended: {0}")]
pub struct PeerLost(pub String);

/// Agreement between engines on the next window, and exchange of their packets.
pub trait WindowExchange {
    /// Exchanges packets after one window. All engines call this function once per window. `next`
    /// is the earliest pending instant of this engine, and includes the packets in `leaving`, which
    /// are grouped by receiving engine. Received packets are appended to `arriving`, grouped by
    /// sender, and `leaving` is empty afterwards. Returns the earliest `next` of all engines.
    ///
    /// # Errors
    ///
    /// Fails if another engine has ended.
    fn exchange(
        &mut self,
        next: Instant<Virtual>,
        leaving: &mut [PacketBatch],
        arriving: &mut PacketBatch,
    ) -> Result<Instant<Virtual>, PeerLost>;
}

/// Statistics of an exact run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Number of windows of the run.
    pub windows: u64,
    /// Number of packets that this engine sent to others.
    pub left: u64,
}

/// Runs one engine up to `end`, in step with the others. All engines must call this function, after
/// [`World::start`] (through [`Engine::with`]).
///
/// # Errors
///
/// Fails if another engine has ended.
pub fn run<Q: EventQueue>(
    engine: &mut Engine<World, Q>,
    cut: &Cut,
    exchange: &mut impl WindowExchange,
    end: Instant<Virtual>,
) -> Result<Windows, PeerLost> {
    let mut leaving = vec![PacketBatch::default(); usize::from(cut.engines())];
    let mut arriving = PacketBatch::default();
    let mut windows = Windows::default();
    loop {
        let mut next = engine.next_wake().unwrap_or(Instant::FAR_FUTURE);
        if !engine.model.crossings().packets.is_empty() {
            windows.left += take_leaving(&mut engine.model, cut, &mut leaving, &mut next);
        }
        let least = exchange.exchange(next, &mut leaving, &mut arriving)?;
        windows.windows += 1;
        if !arriving.packets.is_empty() {
            engine.with(|world, agenda| {
                arriving.for_each(|packet, bytes| {
                    let late = world.take_over(packet, bytes, agenda);
                    debug_assert_eq!(late, Some(Duration::ZERO), "{packet:?}");
                });
            });
            arriving.clear();
        }
        if least > end {
            engine.run_until(end, u64::MAX);
            return Ok(windows);
        }
        let limit = match cut.lookahead() {
            Duration::MAX => end,
            ahead => end.min(least + ahead - Duration::from_ns(1)),
        };
        engine.run_until(limit, u64::MAX);
    }
}

/// Groups outgoing packets by receiving engine; returns their number.
fn take_leaving(
    world: &mut World,
    cut: &Cut,
    leaving: &mut [PacketBatch],
    next: &mut Instant<Virtual>,
) -> u64 {
    let crossings = world.crossings();
    // With two engines, all packets go to the other engine, so the packets need not be checked one
    // by one.
    if let ([_, _], [first, ..]) = (&*leaving, &crossings.packets[..]) {
        let to = cut.end(first.link).expect("a link of this network");
        let batch = &mut leaving[usize::from(to)];
        if batch.packets.is_empty() {
            core::mem::swap(&mut batch.packets, &mut crossings.packets);
            core::mem::swap(&mut batch.bytes, &mut crossings.bytes);
            let instants = batch.packets.iter().map(|packet| packet.at);
            *next = instants.fold(*next, Ord::min);
            return batch.packets.len() as u64;
        }
    }
    let mut rest = &crossings.bytes[..];
    for packet in &crossings.packets {
        *next = (*next).min(packet.at);
        let to = cut.end(packet.link).expect("a link of this network");
        let batch = &mut leaving[usize::from(to)];
        batch.packets.push(*packet);
        if packet.kind == PacketKind::Raw {
            let (bytes, after) = rest.split_at(usize::from(packet.size));
            batch.bytes.extend_from_slice(bytes);
            rest = after;
        }
    }
    let count = crossings.packets.len() as u64;
    crossings.clear();
    count
}

/// Transport between engines in threads of one process.
#[derive(Debug)]
pub struct Shared {
    board: Arc<Board>,
    here: usize,
    round: u32,
}

#[derive(Debug)]
struct Board {
    engines: usize,
    patience: time::Duration,
    /// Packets, by parity of the round, sender and receiver.
    slots: Vec<Mutex<PacketBatch>>,
    /// Earliest instants, by parity of the round and by engine.
    nexts: Vec<Next>,
    arrived: AtomicU32,
    round: AtomicU32,
    broken: AtomicBool,
    /// Number of threads that sleep or are about to sleep.
    sleepers: AtomicU32,
    bed: Mutex<()>,
    wake: Condvar,
}

/// Earliest instant of an engine, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Next(AtomicI64);

/// Time for which an engine polls the barrier before it sleeps, if each engine can have a core. A
/// wake-up takes some 50 µs, as long as a window, so a sleep in each window would double its
/// duration. With fewer cores, polling would take the core from a thread that others wait for.
const PATIENCE: time::Duration = time::Duration::from_micros(300);
/// Number of polls between two reads of the clock. With fewer cores than engines, it is the total
/// number of polls.
const SPINS: u32 = 1_000;

impl Shared {
    /// Creates `engines` transports, the first of which is for engine 0.
    pub fn new(engines: Owner) -> Vec<Self> {
        let engines = usize::from(engines);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let board = Arc::new(Board {
            engines,
            patience: if engines <= cores {
                PATIENCE
            } else {
                time::Duration::ZERO
            },
            slots: (0..2 * engines * engines)
                .map(|_| Mutex::default())
                .collect(),
            nexts: (0..2 * engines).map(|_| Next(AtomicI64::new(0))).collect(),
            arrived: AtomicU32::new(0),
            round: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            bed: Mutex::new(()),
            wake: Condvar::new(),
        });
        (0..engines)
            .map(|here| Self {
                board: Arc::clone(&board),
                here,
                round: 0,
            })
            .collect()
    }

    /// Waits until all engines have reached this point of the round.
    fn meet(&mut self) -> Result<(), PeerLost> {
        let board = &*self.board;
        self.round = self.round.wrapping_add(1);
        if board.arrived.fetch_add(1, AcqRel) + 1 == board.engines as u32 {
            board.arrived.store(0, Relaxed);
            board.round.store(self.round, SeqCst);
            board.wake_sleepers();
            return Ok(());
        }
        let mut begun = None;
        loop {
            for _ in 0..SPINS {
                if board.round.load(Acquire) == self.round {
                    return Ok(());
                }
                core::hint::spin_loop();
            }
            // Most waits are so short that reading the clock would take longer than it saves.
            let begun = begun.get_or_insert_with(time::Instant::now);
            if begun.elapsed() >= board.patience {
                break;
            }
        }
        let mut bed = board.bed.lock();
        // Either the last thread to arrive sees this increment, or the loop below sees the next
        // round.
        board.sleepers.fetch_add(1, SeqCst);
        while board.round.load(SeqCst) != self.round && !board.broken.load(SeqCst) {
            board.wake.wait(&mut bed);
        }
        board.sleepers.fetch_sub(1, SeqCst);
        if board.round.load(Acquire) == self.round {
            return Ok(());
        }
        Err(PeerLost("its thread has ended".to_owned()))
    }
}

impl WindowExchange for Shared {
    fn exchange(
        &mut self,
        next: Instant<Virtual>,
        leaving: &mut [PacketBatch],
        arriving: &mut PacketBatch,
    ) -> Result<Instant<Virtual>, PeerLost> {
        let engines = self.board.engines;
        // A thread that writes in round k + 2 has met the others in round k + 1, which was after
        // they had read the slots of round k. Two sets of slots are therefore enough.
        let parity = (self.round & 1) as usize;
        let slot = |from: usize, to: usize| (parity * engines + from) * engines + to;
        for (to, batch) in leaving.iter_mut().enumerate() {
            if !batch.packets.is_empty() {
                let mut place = self.board.slots[slot(self.here, to)].lock();
                // The packets are copied as a block, as below, and the buffers are not swapped.
                // With a swap, the next window's packets would be written one by one, between other
                // work, to cache lines that the receiver's core holds.
                place.packets.extend_from_slice(&batch.packets);
                place.bytes.extend_from_slice(&batch.bytes);
                batch.clear();
            }
        }
        self.board.nexts[parity * engines + self.here]
            .0
            .store(next.as_ns(), Relaxed);
        self.meet()?;
        let mut least = i64::MAX;
        for from in 0..engines {
            least = least.min(self.board.nexts[parity * engines + from].0.load(Relaxed));
            if from == self.here {
                continue;
            }
            let mut batch = self.board.slots[slot(from, self.here)].lock();
            // The packets are copied as a block. The sender's core holds their cache lines, and
            // fetching these one by one, between other work, costs more.
            arriving.packets.extend_from_slice(&batch.packets);
            arriving.bytes.extend_from_slice(&batch.bytes);
            batch.clear();
        }
        Ok(Instant::from_ns(least))
    }
}

impl Board {
    fn wake_sleepers(&self) {
        if self.sleepers.load(SeqCst) > 0 {
            // A thread that is counted as a sleeper holds this lock until it sleeps.
            drop(self.bed.lock());
            self.wake.notify_all();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // At the end of a run this has no effect. In the middle of a run it ends the wait of the
        // other engines.
        self.board.broken.store(true, SeqCst);
        self.board.wake_sleepers();
    }
}
