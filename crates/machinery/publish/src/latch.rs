//! Two copies, of which one is always whole.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::{AtomicU32, AtomicU64, fence};

/// `N` words that one writer replaces together and any number of readers read
/// together.
///
/// The copy in force is the one that the sequence's lowest bit names. The writer
/// fills the *other* one and then moves the sequence by one. So, unlike with a
/// sequence lock, nothing is ever half written where readers look: a writer that
/// is stopped or killed in the middle costs them nothing, and its successor just
/// goes on. A reader starts again only when a whole publication *and* the
/// beginning of the next fell into its few nanoseconds.
///
/// The words are atomics, so a torn read is a wrong value that is thrown away
/// and not undefined behaviour.
#[repr(C)]
#[derive(Debug)]
pub struct Latch<const N: usize> {
    sequence: AtomicU32,
    reserved: AtomicU32,
    /// Words that change by themselves, without a publication. They are on the
    /// sequence's cache line, since who reads the one reads the others; and each
    /// copy starts on a line of its own.
    pub(crate) beside: [AtomicU64; 7],
    copies: [[AtomicU64; N]; 2],
}

impl<const N: usize> Latch<N> {
    /// A latch that holds `words`.
    pub fn new(words: [u64; N]) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            sequence: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            beside: core::array::from_fn(|_| zero()),
            copies: [words.map(AtomicU64::new), core::array::from_fn(|_| zero())],
        }
    }

    /// Replaces the words. One writer at a time, which the caller sees to.
    pub fn publish(&self, words: [u64; N]) {
        let next = self.sequence.load(Relaxed).wrapping_add(1);
        // A reader that sees any of the words below must also see the sequence
        // that took this copy out of force, else it would not start again.
        fence(Release);
        let copy = if next & 1 == 0 {
            &self.copies[0]
        } else {
            &self.copies[1]
        };
        for (place, word) in copy.iter().zip(words) {
            place.store(word, Relaxed);
        }
        // Whoever sees the new sequence sees all of the words.
        self.sequence.store(next, Release);
    }

    /// Takes from the words in force; `take` is told their sequence too.
    ///
    /// `take` may be called again, and may be given words of two publications
    /// mixed; then its result is dropped.
    #[inline(always)]
    pub fn read<T>(&self, mut take: impl FnMut(&[AtomicU64; N], u32) -> T) -> T {
        loop {
            let sequence = self.sequence();
            if let Some(taken) = self.read_at(sequence, |copy| take(copy, sequence)) {
                return taken;
            }
        }
    }

    /// Which publication is in force.
    #[inline(always)]
    pub fn sequence(&self) -> u32 {
        self.sequence.load(Acquire)
    }

    /// Takes from the words of the publication `sequence`, which [`Self::sequence`]
    /// has just given; `None` when they are not in force any more.
    #[inline(always)]
    pub fn read_at<T>(&self, sequence: u32, take: impl FnOnce(&[AtomicU64; N]) -> T) -> Option<T> {
        let copy = if sequence & 1 == 0 {
            &self.copies[0]
        } else {
            &self.copies[1]
        };
        let taken = take(copy);
        // Before the second look, all of the words must have been loaded.
        fence(Acquire);
        (self.sequence.load(Relaxed) == sequence).then_some(taken)
    }

    /// All of the words in force.
    pub fn words(&self) -> [u64; N] {
        self.read(|copy, _| core::array::from_fn(|index| copy[index].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn what_is_read_was_published_together() {
        let latch = Latch::<8>::new([0; 8]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !done.load(Relaxed) {
                        let words = latch.words();
                        assert!(
                            words.iter().all(|word| *word == words[0]),
                            "torn: {words:?}"
                        );
                        assert!(words[0] >= last, "{} after {last}", words[0]);
                        last = words[0];
                    }
                });
            }
            // Under Miri every one of its seeds is another interleaving.
            let turns = if cfg!(miri) { 60 } else { 300_000 };
            for turn in 1..turns {
                latch.publish([turn; 8]);
            }
            done.store(true, Relaxed);
        });
    }

    #[test]
    fn a_writer_killed_anywhere_in_a_publication_is_not_noticed() {
        for words_written in 0..8 {
            let latch = Latch::<8>::new([1; 8]);
            latch.publish([2; 8]);
            // What a publication does until it is killed.
            for place in &latch.copies[0][..words_written] {
                place.store(99, Relaxed);
            }
            assert_eq!(latch.words(), [2; 8]);
            latch.publish([3; 8]); // by its successor
            assert_eq!(latch.words(), [3; 8]);
        }
    }
}
