//! Bitmap with one bit per segment of a window.

use timeloom_time::convert::index;

/// Marks of segment numbers in a window that moves to higher numbers.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    words: Box<[u64]>,
    /// Number of bits minus one; the number of bits is a power of two.
    mask: u64,
}

impl Board {
    /// Returns a board with room for at least `segments` segments.
    pub(crate) fn new(segments: u32) -> Self {
        let size = segments.next_power_of_two().max(64);
        Self {
            words: vec![0; size as usize / 64].into_boxed_slice(),
            mask: u64::from(size) - 1,
        }
    }

    pub(crate) fn get(&self, segment: u64) -> bool {
        let at = segment & self.mask;
        self.words[index(at / 64)] >> (at % 64) & 1 == 1
    }

    /// Sets the mark of a segment; returns true if it was not set.
    pub(crate) fn set(&mut self, segment: u64) -> bool {
        let at = segment & self.mask;
        let word = &mut self.words[index(at / 64)];
        let before = *word;
        *word |= 1 << (at % 64);
        *word != before
    }

    /// Sets the marks of `from..to`; returns the number of marks that were not set.
    pub(crate) fn fill(&mut self, from: u64, to: u64) -> u32 {
        let mut fresh = 0;
        for (word, bits) in pieces(self.mask, from, to) {
            let word = &mut self.words[word];
            fresh += (bits & !*word).count_ones();
            *word |= bits;
        }
        fresh
    }

    /// Removes the marks of `from..to`; returns the number of marks that were set.
    pub(crate) fn erase(&mut self, from: u64, to: u64) -> u32 {
        let mut marked = 0;
        for (word, bits) in pieces(self.mask, from, to) {
            let word = &mut self.words[word];
            marked += (bits & *word).count_ones();
            *word &= !bits;
        }
        marked
    }

    /// Returns the number of marks in `from..to`.
    pub(crate) fn count(&self, from: u64, to: u64) -> u32 {
        pieces(self.mask, from, to)
            .map(|(word, bits)| (self.words[word] & bits).count_ones())
            .sum()
    }

    /// Returns the first segment in `from..to` without a mark; `to` if all have one.
    pub(crate) fn first_clear(&self, from: u64, to: u64) -> u64 {
        let mut at = from;
        while at < to {
            let bit = (at & self.mask) % 64;
            let word = self.words[index((at & self.mask) / 64)] >> bit;
            let ones = u64::from(word.trailing_ones()).min(64 - bit);
            if ones < 64 - bit {
                return (at + ones).min(to);
            }
            at += ones;
        }
        to
    }
}

/// Iterates over the words that contain the marks of `from..to`, each with a mask of those bits.
#[inline]
fn pieces(mask: u64, from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
    let mut at = from;
    core::iter::from_fn(move || {
        if at >= to {
            return None;
        }
        let place = at & mask;
        let bit = place % 64;
        let take = (64 - bit).min(to - at);
        at += take;
        Some((index(place / 64), u64::MAX >> (64 - take) << bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_engine::Random;

    #[test]
    fn agrees_with_a_list_of_booleans() {
        let mut random = Random::new(1, 0);
        let mut board = Board::new(256);
        let (mut list, mut base) = (vec![false; 200_000], 0u64);
        for _ in 0..5_000 {
            let segment = base + random.below(256);
            assert_eq!(board.set(segment), !list[segment as usize]);
            list[segment as usize] = true;
            let (from, to) = (base + random.below(100), base + 256);
            let marks = &list[from as usize..to as usize];
            let expected = marks.iter().filter(|mark| **mark).count();
            assert_eq!(board.count(from, to), expected as u32);
            let clear = marks.iter().position(|mark| !mark);
            let clear = clear.map_or(to, |at| from + at as u64);
            assert_eq!(board.first_clear(from, to), clear);
            if random.chance(0.1) {
                let from = base + random.below(200);
                let to = (from + random.below(150)).min(base + 256);
                let marks = &mut list[from as usize..to as usize];
                let fresh = marks.iter().filter(|mark| !**mark).count();
                assert_eq!(board.fill(from, to), fresh as u32);
                marks.fill(true);
            }
            let most = if random.chance(0.1) { 200 } else { 8 };
            let next = base + random.below(most);
            let marks = &list[base as usize..next as usize];
            let marked = marks.iter().filter(|mark| **mark).count();
            assert_eq!(board.erase(base, next), marked as u32);
            assert!((base..next).all(|segment| !board.get(segment)));
            base = next;
        }
    }
}
