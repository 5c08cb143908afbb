//! Latch with two copies of its content, one of which is always consistent.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sync::{AtomicU32, AtomicU64, fence};

/// `N` words that one writer replaces together and that any number of readers read together.
///
/// The lowest bit of the sequence selects the copy in force. The writer fills the *other* copy and
/// then increments the sequence. So, unlike with a sequence lock, readers never wait for a
/// half-written copy. A writer that is stopped or killed in the middle does not delay them, and its
/// successor simply continues. A reader retries only if a whole publication *and* the beginning of
/// the next one happened during the few nanoseconds of its read.
///
/// The words are atomics, so a torn read is a wrong value that is discarded, and not undefined
/// behaviour.
#[repr(C)]
#[derive(Debug)]
pub struct Latch<const N: usize> {
    sequence: AtomicU32,
    reserved: AtomicU32,
    /// Words that change without a publication. They are on the cache line of the sequence, since a
    /// reader of the sequence reads them too. Each copy starts on a cache line of its own.
    pub(crate) beside: [AtomicU64; 7],
    copies: [[AtomicU64; N]; 2],
}

impl<const N: usize> Latch<N> {
    /// Creates a latch that holds `words`.
    pub fn new(words: [u64; N]) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            sequence: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            beside: core::array::from_fn(|_| zero()),
            copies: [words.map(AtomicU64::new), core::array::from_fn(|_| zero())],
        }
    }

    /// Replaces the words. The caller ensures that there is one writer at a time.
    pub fn publish(&self, words: [u64; N]) {
        let next = self.sequence.load(Relaxed).wrapping_add(1);
        // A reader that sees any of the new words must also see the sequence that took this copy
        // out of force. Otherwise it would not retry.
        fence(Release);
        let copy = if next & 1 == 0 {
            &self.copies[0]
        } else {
            &self.copies[1]
        };
        for (place, word) in copy.iter().zip(words) {
            place.store(word, Relaxed);
        }
        // A reader that sees the new sequence also sees all of the new words.
        self.sequence.store(next, Release);
    }

    /// Reads the words in force. `take` gets the words and the sequence of their publication.
    ///
    /// `take` may be called several times, and may get a mixture of the words of two publications.
    /// The result for such a mixture is discarded.
    #[inline(always)]
    pub fn read<T>(&self, mut take: impl FnMut(&[AtomicU64; N], u32) -> T) -> T {
        loop {
            let sequence = self.sequence();
            if let Some(taken) = self.read_at(sequence, |copy| take(copy, sequence)) {
                return taken;
            }
        }
    }

    /// Returns the sequence of the publication in force.
    #[inline(always)]
    pub fn sequence(&self) -> u32 {
        self.sequence.load(Acquire)
    }

    /// Reads the words of the publication `sequence`, a value that [`Self::sequence`] has just
    /// returned; `None` if another publication may have changed them meanwhile.
    #[inline(always)]
    pub fn read_at<T>(&self, sequence: u32, take: impl FnOnce(&[AtomicU64; N]) -> T) -> Option<T> {
        let copy = if sequence & 1 == 0 {
            &self.copies[0]
        } else {
            &self.copies[1]
        };
        let taken = take(copy);
        // All words must be loaded before the second check of the sequence.
        fence(Acquire);
        (self.sequence.load(Relaxed) == sequence).then_some(taken)
    }

    /// Returns a copy of all words in force.
    pub fn words(&self) -> [u64; N] {
        self.read(|copy, _| core::array::from_fn(|index| copy[index].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn words_read_together_were_published_together() {
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
            // Under Miri, each seed gives another interleaving of the threads.
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
            // These are the stores of a publication before its writer is killed.
            for place in &latch.copies[0][..words_written] {
                place.store(99, Relaxed);
            }
            assert_eq!(latch.words(), [2; 8]);
            latch.publish([3; 8]); // by its successor
            assert_eq!(latch.words(), [3; 8]);
        }
    }
}
