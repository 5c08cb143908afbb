//! One link to another machine, without network access or clocks: frames that wait to leave at the
//! link's rate, and received frames that wait until the local clock reaches their instant.

use std::collections::{BTreeMap, VecDeque};

use timeloom_time::{Duration, Instant, Virtual};

/// Outgoing frames: a queue that is emptied at the link's rate in virtual time.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Rate of the link in bit/s; `None` if frames leave at once.
    rate: Option<u64>,
    most_bytes: usize,
    bytes: usize,
    /// Time by which frames may leave earlier than at the link's rate, after a pause: the depth of
    /// the bucket of a link within one machine, at that rate.
    burst: Duration,
    /// Instant at which all frames until now would have left at the link's rate.
    free_at: Instant<Virtual>,
    /// Departure of the last frame that was queued.
    last: Instant<Virtual>,
    waiting: VecDeque<(Instant<Virtual>, Vec<u8>)>,
    pub(super) dropped: u64,
}

impl Outgoing {
    pub(super) fn new(rate: Option<u64>, most_bytes: usize, burst_bytes: usize) -> Self {
        Self {
            rate,
            most_bytes,
            bytes: 0,
            burst: of_bits(rate, burst_bytes),
            free_at: Instant::ZERO,
            last: Instant::from_ns(i64::MIN),
            waiting: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Queues a frame that the node sends at `now`. The frame is dropped if the queue is full.
    pub(super) fn offer(&mut self, frame: &[u8], now: Instant<Virtual>) {
        if self.bytes + frame.len() > self.most_bytes {
            self.dropped += 1;
            return;
        }
        self.bytes += frame.len();
        self.free_at = self.free_at.max(now) + self.takes(frame.len());
        // No frame overtakes another.
        self.last = (self.free_at - self.burst).max(now).max(self.last);
        let leaves = self.last;
        self.waiting.push_back((leaves, frame.to_vec()));
    }

    /// Returns the departure time of the next frame; `None` if the queue is empty.
    pub(super) fn next(&self) -> Option<Instant<Virtual>> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// Returns the next frame and its departure time if it has left by `now`.
    pub(super) fn take(&mut self, now: Instant<Virtual>) -> Option<(Instant<Virtual>, Vec<u8>)> {
        if self.next()? > now {
            return None;
        }
        let (at, frame) = self.waiting.pop_front()?;
        self.bytes -= frame.len();
        Some((at, frame))
    }

    /// Returns the time for which a frame of `bytes` bytes occupies the wire.
    fn takes(&self, bytes: usize) -> Duration {
        of_bits(self.rate, (bytes + OVERHEAD_BYTES).max(SMALLEST_SLOT_BYTES))
    }
}

/// Returns the time for which `bytes` bytes occupy a wire of this rate in bit/s.
fn of_bits(rate: Option<u64>, bytes: usize) -> Duration {
    let Some(rate) = rate else {
        return Duration::ZERO;
    };
    let ns = bytes as u128 * 8_000_000_000 / u128::from(rate.max(1));
    Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX / 2))
}

/// Frames received from the other machine.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Frames that wait, by departure time and number.
    waiting: BTreeMap<(Instant<Virtual>, u64), Vec<u8>>,
    bytes: usize,
    /// Highest number of a frame that was received.
    newest: u64,
    /// Number of frames that did not arrive, counted by gaps in the numbers.
    pub(super) lost: u64,
    pub(super) refused: u64,
}

impl Incoming {
    /// Queues the frame with this number, which left the other machine at `at`. The frame is
    /// refused if it is a duplicate, if a later frame has overtaken it, or if it exceeds the
    /// buffer.
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

    /// Returns a frame whose departure time is at or before `now`, with that time.
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

/// Overhead of a frame on the wire in bytes: checksum, preamble and interframe gap (IEEE 802.3).
const OVERHEAD_BYTES: usize = 24;
/// Bytes that the shortest frame occupies on the wire: 64, with preamble and gap.
const SMALLEST_SLOT_BYTES: usize = 84;
/// Maximum number of bytes received that are kept while the clock is stopped.
const MOST_BYTES_HELD: usize = 64 << 20;

/// Returns the number of bytes that count for a frame in the buffer. An empty frame counts as well,
/// because otherwise the number of empty frames would be unlimited.
fn cost(frame: &[u8]) -> usize {
    frame.len() + 128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: i64) -> Instant<Virtual> {
        Instant::ZERO + Duration::from_us(us)
    }

    /// A frame of 1,226 bytes takes 100 µs at 100 Mbit/s, together with its overhead.
    #[test]
    fn frames_leave_at_the_rate_of_the_link_and_stand_when_the_clock_does() {
        let mut line = Outgoing::new(Some(100_000_000), 4_000, 0);
        for _ in 0..3 {
            line.offer(&[7; 1_226], at(1_000));
        }
        line.offer(&[8; 1_226], at(1_000));
        assert_eq!(line.dropped, 1, "the queue is full");
        assert_eq!(line.next(), Some(at(1_100)));
        assert_eq!(line.take(at(1_099)), None);
        assert_eq!(line.take(at(1_200)).map(|it| it.0), Some(at(1_100)));
        // The result depends neither on the length of the wait nor on the number of calls.
        assert_eq!(line.take(at(1_200)).map(|it| it.0), Some(at(1_200)));
        assert_eq!(line.take(at(1_200)), None);
        // The link is busy until the previous frame has left.
        assert_eq!(line.take(at(1_300)).map(|it| it.0), Some(at(1_300)));
        line.offer(&[9; 60], at(5_000));
        assert_eq!(line.next(), Some(at(5_006) + Duration::from_ns(720)));
    }

    /// A bucket of two frames passes two at once, and one of them again after the time of one.
    #[test]
    fn frames_leave_at_once_while_the_bucket_has_tokens() {
        let mut line = Outgoing::new(Some(100_000_000), 8_000, 2_500);
        for _ in 0..3 {
            line.offer(&[7; 1_226], at(1_000));
        }
        assert_eq!(line.take(at(1_000)).map(|it| it.0), Some(at(1_000)));
        assert_eq!(line.take(at(1_000)).map(|it| it.0), Some(at(1_000)));
        assert_eq!(line.take(at(1_000)), None);
        assert_eq!(line.next(), Some(at(1_100)));
        assert!(line.take(at(1_100)).is_some());
        line.offer(&[7; 1_226], at(1_200));
        assert_eq!(line.next(), Some(at(1_200)));
    }

    #[test]
    fn a_link_without_a_rate_is_at_once() {
        let mut line = Outgoing::new(None, 1_000, 0);
        line.offer(&[1; 100], at(3));
        assert_eq!(line.take(at(3)), Some((at(3), vec![1; 100])));
    }

    #[test]
    fn frames_without_bytes_take_room_too() {
        let mut line = Incoming::default();
        for number in 1..=1_000_000 {
            line.arrive(number, at(10), &[]);
        }
        assert!(line.refused > 0, "an unlimited number is accepted");
        let refused = line.refused;
        while line.take(at(10)).is_some() {}
        line.arrive(1_000_001, at(11), &[]);
        assert_eq!(line.refused, refused, "there is room again");
    }

    #[test]
    fn frames_wait_for_their_instant_and_are_delivered_once() {
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
