//! A ring of bits, one per segment of the window.

/// Marks for the segment numbers of a window that slides upward.
#[derive(Debug)]
pub(crate) struct Board {
    words: Box<[u64]>,
    /// Number of segments minus one; the number is a power of two.
    mask: u64,
}

impl Board {
    /// Room for at least `segments`.
    pub(crate) fn new(segments: u32) -> Self {
        let size = segments.next_power_of_two().max(64);
        Self {
            words: vec![0; size as usize / 64].into_boxed_slice(),
            mask: u64::from(size) - 1,
        }
    }

    pub(crate) fn get(&self, segment: u64) -> bool {
        let at = segment & self.mask;
        self.words[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// Sets the mark; says whether it was not set before.
    pub(crate) fn set(&mut self, segment: u64) -> bool {
        let at = segment & self.mask;
        let word = &mut self.words[(at / 64) as usize];
        let before = *word;
        *word |= 1 << (at % 64);
        *word != before
    }

    pub(crate) fn clear(&mut self, segment: u64) {
        let at = segment & self.mask;
        self.words[(at / 64) as usize] &= !(1 << (at % 64));
    }

    /// How many of `from..to` are marked.
    pub(crate) fn count(&self, from: u64, to: u64) -> u32 {
        let mut at = from;
        let mut sum = 0;
        while at < to {
            let bit = (at & self.mask) % 64;
            let take = (64 - bit).min(to - at);
            let word = self.words[((at & self.mask) / 64) as usize] >> bit;
            let keep = if take == 64 {
                u64::MAX
            } else {
                (1 << take) - 1
            };
            sum += (word & keep).count_ones();
            at += take;
        }
        sum
    }

    /// The first of `from..to` that is not marked, else `to`.
    pub(crate) fn first_clear(&self, from: u64, to: u64) -> u64 {
        let mut at = from;
        while at < to {
            let bit = (at & self.mask) % 64;
            let word = self.words[((at & self.mask) / 64) as usize] >> bit;
            let ones = u64::from(word.trailing_ones()).min(64 - bit);
            if ones < 64 - bit {
                return (at + ones).min(to);
            }
            at += ones;
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_engine::Random;

    #[test]
    fn agrees_with_a_list_of_booleans() {
        let mut random = Random::new(1, 0);
        let mut board = Board::new(256);
        let (mut list, mut base) = (vec![false; 100_000], 0u64);
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
            for _ in 0..random.below(8) {
                board.clear(base);
                assert!(!board.get(base));
                base += 1;
            }
        }
    }
}
