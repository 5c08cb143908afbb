//! One link to another machine, without network and time: what waits to leave, at the
//! link's rate, and what has come and waits until its instant has passed here.

use std::collections::{BTreeMap, VecDeque};

use timeloom_time::{Duration, Instant, Virtual};

/// What leaves: a queue that is emptied at the link's rate, in virtual time.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Bits in a second; none: at once.
    rate: Option<u64>,
    most_bytes: usize,
    bytes: usize,
    /// When all that waits has left.
    free_at: Instant<Virtual>,
    waiting: VecDeque<(Instant<Virtual>, Vec<u8>)>,
    pub(super) dropped: u64,
}

impl Outgoing {
    pub(super) fn new(rate: Option<u64>, most_bytes: usize) -> Self {
        Self {
            rate,
            most_bytes,
            bytes: 0,
            free_at: Instant::ZERO,
            waiting: VecDeque::new(),
            dropped: 0,
        }
    }

    /// A frame that the node sends at `now`. A full queue drops it.
    pub(super) fn offer(&mut self, frame: &[u8], now: Instant<Virtual>) {
        if self.bytes + frame.len() > self.most_bytes {
            self.dropped += 1;
            return;
        }
        self.bytes += frame.len();
        self.free_at = self.free_at.max(now) + self.takes(frame.len());
        self.waiting.push_back((self.free_at, frame.to_vec()));
    }

    /// When the next frame has left.
    pub(super) fn next(&self) -> Option<Instant<Virtual>> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// A frame that has left by `now`, and when it had.
    pub(super) fn take(&mut self, now: Instant<Virtual>) -> Option<(Instant<Virtual>, Vec<u8>)> {
        if self.next()? > now {
            return None;
        }
        let (at, frame) = self.waiting.pop_front()?;
        self.bytes -= frame.len();
        Some((at, frame))
    }

    /// For how long a frame occupies the wire.
    fn takes(&self, bytes: usize) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let slot = (bytes + OVERHEAD_BYTES).max(SMALLEST_SLOT_BYTES) as u64;
        let ns = u128::from(slot) * 8_000_000_000 / u128::from(rate.max(1));
        Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX / 2))
    }
}

/// What came from the other machine.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// By when it left there, and its number.
    waiting: BTreeMap<(Instant<Virtual>, u64), Vec<u8>>,
    bytes: usize,
    /// The highest number that came.
    newest: u64,
    /// Numbers that were passed over.
    pub(super) lost: u64,
    pub(super) refused: u64,
}

impl Incoming {
    /// A frame of this number left the other machine at `at`. One that came before, or that
    /// later ones overtook, is refused, as is one for which there is no room.
    pub(super) fn arrive(&mut self, number: u64, at: Instant<Virtual>, frame: &[u8]) {
        if number <= self.newest || self.bytes + cost(frame) > MOST_BYTES_HELD {
            self.refused += 1;
            return;
        }
        self.lost += number - self.newest - 1;
        self.newest = number;
        self.bytes += cost(frame);
        self.waiting.insert((at, number), frame.to_vec());
    }

    pub(super) fn next(&self) -> Option<Instant<Virtual>> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    /// A frame that is here by `now`, and when it left.
    pub(super) fn take(&mut self, now: Instant<Virtual>) -> Option<(Instant<Virtual>, Vec<u8>)> {
        let first = self.waiting.first_entry()?;
        let (at, _) = *first.key();
        if at > now {
            return None;
        }
        let frame = first.remove();
        self.bytes -= cost(&frame);
        Some((at, frame))
    }
}

/// Checksum, preamble and the gap between frames (IEEE 802.3).
const OVERHEAD_BYTES: usize = 24;
/// The 64 bytes of the shortest frame with preamble and gap.
const SMALLEST_SLOT_BYTES: usize = 84;
/// No more is kept of what comes while the clock stands.
const MOST_BYTES_HELD: usize = 64 << 20;

/// What keeping a frame takes. An empty one is not free: any number of them could come.
fn cost(frame: &[u8]) -> usize {
    frame.len() + 128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: i64) -> Instant<Virtual> {
        Instant::ZERO + Duration::from_us(us)
    }

    /// 1,226 bytes and what belongs to them take 100 µs at 100 Mbit/s.
    #[test]
    fn frames_leave_at_the_rate_of_the_link_and_stand_when_the_clock_does() {
        let mut line = Outgoing::new(Some(100_000_000), 4_000);
        for _ in 0..3 {
            line.offer(&[7; 1_226], at(1_000));
        }
        line.offer(&[8; 1_226], at(1_000));
        assert_eq!(line.dropped, 1, "the queue is full");
        assert_eq!(line.next(), Some(at(1_100)));
        assert_eq!(line.take(at(1_099)), None);
        assert_eq!(line.take(at(1_200)).map(|it| it.0), Some(at(1_100)));
        // However long that lasts, and however often it is asked.
        assert_eq!(line.take(at(1_200)).map(|it| it.0), Some(at(1_200)));
        assert_eq!(line.take(at(1_200)), None);
        // An idle link begins with the frame, a busy one behind the last.
        assert_eq!(line.take(at(1_300)).map(|it| it.0), Some(at(1_300)));
        line.offer(&[9; 60], at(5_000));
        assert_eq!(line.next(), Some(at(5_006) + Duration::from_ns(720)));
    }

    #[test]
    fn a_link_without_a_rate_is_at_once() {
        let mut line = Outgoing::new(None, 1_000);
        line.offer(&[1; 100], at(3));
        assert_eq!(line.take(at(3)), Some((at(3), vec![1; 100])));
    }

    #[test]
    fn frames_without_bytes_take_room_too() {
        let mut line = Incoming::default();
        for number in 1..=1_000_000 {
            line.arrive(number, at(10), &[]);
        }
        assert!(line.refused > 0, "as many as anybody sends");
        let refused = line.refused;
        while line.take(at(10)).is_some() {}
        line.arrive(1_000_001, at(11), &[]);
        assert_eq!(line.refused, refused, "there is room again");
    }

    #[test]
    fn what_comes_waits_for_its_instant_and_comes_once() {
        let mut line = Incoming::default();
        line.arrive(1, at(10), &[1]);
        line.arrive(1, at(10), &[1]);
        line.arrive(4, at(20), &[4]);
        line.arrive(3, at(15), &[3]);
        assert_eq!((line.lost, line.refused), (2, 2));
        assert_eq!(line.take(at(9)), None);
        assert_eq!(line.next(), Some(at(10)));
        assert_eq!(line.take(at(12)), Some((at(10), vec![1])));
        assert_eq!(line.take(at(12)), None);
        assert_eq!(line.take(at(20)), Some((at(20), vec![4])));
        assert_eq!(line.next(), None);
    }
}
