//! Timing wheel that sorts one slot at a time.
//!
//! Time is divided into slots of 2^8 ns. Each of the next 16,384 slots (4.2 ms, the horizon) has a
//! list, so that a push is one list insertion. A pop takes events from a small sorted vector; when
//! the vector is empty, it is filled from the first occupied slot, which a bitmap finds. Events
//! beyond the horizon wait in a heap and are moved to a slot once, when the horizon has reached
//! them. They are mostly retransmission timers, which are usually cancelled before.
//!
//! All lists take their cells from one pool, so a queue that has had its maximum number of events
//! allocates no more.

use timeloom_time::{Instant, Virtual};

use super::{EventQueue, Heap4};
use crate::Event;

/// Event queue with a list of events for each slot of the near future.
#[derive(Debug)]
pub struct Wheel {
    /// Slot whose events are being popped, counted from the zero of time.
    slot: u64,
    /// Remaining events of that slot, in descending order.
    current: Vec<Event>,
    /// Events that were pushed for that slot or an earlier one, after the slot's list was emptied.
    fresh: Heap4,
    /// Index of the first cell of each slot's list.
    heads: Box<[u32]>,
    occupied: Bitmap,
    pool: Vec<Cell>,
    /// Index of the first unused cell.
    free: u32,
    /// Events beyond the horizon of the slots.
    beyond: Heap4,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    event: Event,
    next: u32,
}

/// Index that marks the end of a list.
const NIL: u32 = u32::MAX;
/// Binary logarithm of the length of a slot in ns. A slot is shorter than a 1500-byte packet at 40
/// Gbit/s, so that a busy link puts no more than one event into a slot.
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << 14;
const MASK: u64 = SLOTS as u64 - 1;

impl Default for Wheel {
    fn default() -> Self {
        Self {
            slot: 0,
            current: Vec::new(),
            fresh: Heap4::default(),
            heads: vec![NIL; SLOTS].into_boxed_slice(),
            occupied: Bitmap::default(),
            pool: Vec::new(),
            free: NIL,
            beyond: Heap4::default(),
            len: 0,
        }
    }
}

/// Returns the number of the slot that contains an instant. The sign bit is flipped, so that
/// instants before the scale's zero keep their order.
#[inline]
fn slot_of(at: Instant<Virtual>) -> u64 {
    (at.as_ns().cast_unsigned() ^ (1 << 63)) >> SLOT_BITS
}

impl Wheel {
    #[inline]
    fn link(&mut self, event: Event, slot: u64) {
        let index = (slot & MASK) as usize;
        let cell = Cell {
            event,
            next: self.heads[index],
        };
        if cell.next == NIL {
            self.occupied.set(index);
        }
        if self.free == NIL {
            self.heads[index] = u32::try_from(self.pool.len()).expect("2^32 events wait");
            self.pool.push(cell);
        } else {
            self.heads[index] = self.free;
            let place = &mut self.pool[self.free as usize];
            self.free = place.next;
            *place = cell;
        }
    }

    /// Advances to the first non-empty slot and sorts its events, unless the slot begins after
    /// `limit`. Returns true if it advanced.
    fn advance(&mut self, limit: Instant<Virtual>) -> bool {
        let near = self.occupied.distance(((self.slot + 1) & MASK) as usize);
        let near = near.map(|distance| self.slot + 1 + distance as u64);
        let far = self.beyond.first_at().map(slot_of);
        let Some(next) = near.into_iter().chain(far).min() else {
            return false;
        };
        if next > slot_of(limit) {
            return false;
        }
        self.slot = next;
        let index = (next & MASK) as usize;
        let mut cell = core::mem::replace(&mut self.heads[index], NIL);
        if cell != NIL {
            self.occupied.clear(index);
        }
        while cell != NIL {
            let place = &mut self.pool[cell as usize];
            self.current.push(place.event);
            let after = core::mem::replace(&mut place.next, self.free);
            self.free = cell;
            cell = after;
        }
        if far.is_some_and(|far| far - next < SLOTS as u64) {
            self.fetch_from_beyond();
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    /// Moves events that are now within the horizon from the heap to the slots.
    #[cold]
    fn fetch_from_beyond(&mut self) {
        while let Some(first) = self.beyond.peek().copied() {
            let slot = slot_of(first.at);
            if slot - self.slot >= SLOTS as u64 {
                break;
            }
            self.beyond.pop();
            if slot == self.slot {
                self.current.push(first);
            } else {
                self.link(first, slot);
            }
        }
    }
}

impl EventQueue for Wheel {
    #[inline]
    fn push(&mut self, event: Event) {
        self.len += 1;
        let slot = slot_of(event.at);
        if slot <= self.slot {
            self.fresh.push(event);
        } else if slot - self.slot < SLOTS as u64 {
            self.link(event, slot);
        } else {
            self.beyond.push(event);
        }
    }

    #[inline]
    fn pop_due(&mut self, limit: Instant<Virtual>) -> Option<Event> {
        loop {
            let sorted = self.current.last();
            let from_fresh = match (sorted, self.fresh.peek()) {
                (None, None) => {
                    if self.advance(limit) {
                        continue;
                    }
                    return None;
                }
                (Some(sorted), Some(fresh)) => fresh < sorted,
                (sorted, _) => sorted.is_none(),
            };
            let event = if from_fresh {
                self.fresh.pop_due(limit)?
            } else {
                sorted.filter(|event| event.at <= limit)?;
                self.current.pop()?
            };
            self.len -= 1;
            return Some(event);
        }
    }

    fn first_at(&self) -> Option<Instant<Virtual>> {
        let sorted = self.current.last().map(|event| event.at);
        let here = sorted.into_iter().chain(self.fresh.first_at()).min();
        if here.is_some() {
            return here;
        }
        let start = ((self.slot + 1) & MASK) as usize;
        let near = self.occupied.distance(start).and_then(|distance| {
            let mut cell = self.heads[(start + distance) % SLOTS];
            let mut least: Option<Instant<Virtual>> = None;
            while cell != NIL {
                let place = &self.pool[cell as usize];
                least = least.into_iter().chain([place.event.at]).min();
                cell = place.next;
            }
            least
        });
        near.into_iter().chain(self.beyond.first_at()).min()
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Bitmap of the non-empty slots, in two levels: one bit per slot, and one bit per word of these.
#[derive(Debug)]
struct Bitmap {
    words: [u64; WORDS],
    summary: [u64; WORDS / 64],
}

const WORDS: usize = SLOTS / 64;

impl Default for Bitmap {
    fn default() -> Self {
        Self {
            words: [0; WORDS],
            summary: [0; WORDS / 64],
        }
    }
}

impl Bitmap {
    #[inline]
    fn set(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
        self.summary[index / 4096] |= 1 << (index / 64 % 64);
    }

    #[inline]
    fn clear(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
        if self.words[index / 64] == 0 {
            self.summary[index / 4096] &= !(1 << (index / 64 % 64));
        }
    }

    /// Returns the distance from `start` to the next set bit, with wrap-around; `None` if all are
    /// zero.
    #[inline]
    fn distance(&self, start: usize) -> Option<usize> {
        let word = self.words[start / 64] >> (start % 64);
        if word != 0 {
            return Some(word.trailing_zeros() as usize);
        }
        let found = self
            .first_word(start / 64 + 1, WORDS)
            .or_else(|| self.first_word(0, start / 64 + 1))?;
        let index = found * 64 + self.words[found].trailing_zeros() as usize;
        Some((index + SLOTS - start) % SLOTS)
    }

    /// Returns the index of the first non-zero word in `from..to`.
    #[inline]
    fn first_word(&self, from: usize, to: usize) -> Option<usize> {
        let mut group = from / 64;
        let mut bits = *self.summary.get(group)? >> (from % 64) << (from % 64);
        loop {
            if bits != 0 {
                let word = group * 64 + bits.trailing_zeros() as usize;
                return (word < to).then_some(word);
            }
            group += 1;
            if group * 64 >= to {
                return None;
            }
            bits = *self.summary.get(group)?;
        }
    }
}
