//! How long the loop rests between two turns.
//!
//! A turn costs much the same whether it finds one frame or ten: the sleep, the calls,
//! and the other side's way through its kernel. So a loop that is at work for long rests
//! for a little longer after each turn and finds more in the next, as drivers of network cards
//! do (Linux calls it DIM). One that has little to do does not rest at all: a lonely frame
//! is served at once, and on time.

use timeloom_time::{Duration, Instant, Wall};

/// Decides how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moderation {
    most: Duration,
    /// The least time between two turns now.
    gap: Duration,
    /// When it last decided, and the thread's processor time then.
    since: Option<[i64; 2]>,
    frames: u64,
    bytes: u64,
}

impl Moderation {
    /// With no rest longer than this.
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            most,
            gap: Duration::ZERO,
            since: None,
            frames: 0,
            bytes: 0,
        }
    }

    /// A frame was moved, in or out.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }

    /// After a turn that has moved frames and ended `now`: the least time from its
    /// beginning to the next. `worked` is the processor time of the thread, which is
    /// asked rarely.
    pub(crate) fn gap(
        &mut self,
        now: Instant<Wall>,
        worked: impl FnOnce() -> Duration,
    ) -> Duration {
        let now = now.as_ns();
        let Some([since, before]) = self.since else {
            self.since = Some([now, worked().as_ns()]);
            return self.gap;
        };
        let looked = now - since;
        if looked >= LOOK.as_ns() {
            let worked = worked().as_ns();
            let most = self.most.as_ns();
            let most = if self.bytes > LONG * self.frames {
                most / 4
            } else {
                most
            };
            let step = self.most.as_ns() / STEPS;
            let gap = if worked - before > looked / AT_WORK {
                self.gap.as_ns() + step
            } else {
                // After a silence it is as at the start.
                self.gap.as_ns() - step.saturating_mul(looked / LOOK.as_ns())
            };
            self.gap = Duration::from_ns(gap.clamp(0, most));
            self.since = Some([now, worked]);
            (self.frames, self.bytes) = (0, 0);
        }
        self.gap
    }
}

/// How often it decides anew.
const LOOK: Duration = Duration::from_ms(1);
/// One part of so many of the time may go into turns before they are spaced.
const AT_WORK: i64 = 5;
/// From no rest to the longest and back.
const STEPS: i64 = 16;
/// Of frames longer than this, many at a time save little, and senders of so much wait
/// for each acknowledgement: a quarter of the rest has to do.
const LONG: u64 = 24_576;

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_us(160);

    /// A thread that is given frames of so many bytes for so long, one after another,
    /// and takes so long for each turn; gives back the gap at the end.
    fn under_load(moderation: &mut Moderation, bytes: usize, turn: Duration, ms: i64) -> Duration {
        let (mut now, mut worked) = (Instant::from_ns(5), Duration::ZERO);
        let end = now + Duration::from_ms(ms);
        let mut gap = Duration::ZERO;
        // It has worked before, too.
        moderation.since = None;
        while now < end {
            moderation.moved(bytes);
            worked += turn;
            gap = moderation.gap(now + turn, || worked);
            now += turn.max(gap);
        }
        gap
    }

    #[test]
    fn who_has_little_to_do_does_not_rest() {
        let mut moderation = Moderation::new(MOST);
        let (mut now, mut worked) = (Instant::from_ns(5), Duration::ZERO);
        for _ in 0..10_000 {
            moderation.moved(60);
            worked += Duration::from_us(15);
            assert_eq!(moderation.gap(now, || worked), Duration::ZERO);
            now += Duration::from_us(100);
        }
    }

    #[test]
    fn who_is_always_at_work_rests_longest_until_there_is_silence() {
        let mut moderation = Moderation::new(MOST);
        let gap = under_load(&mut moderation, 6_000, Duration::from_us(90), 100);
        assert_eq!(gap, MOST);
        let [since, worked] = moderation.since.unwrap();
        let later = Instant::from_ns(since) + Duration::from_ms(20);
        let worked = Duration::from_ns(worked) + Duration::from_us(10);
        assert_eq!(moderation.gap(later, || worked), Duration::ZERO);
    }

    #[test]
    fn the_gap_is_no_longer_than_the_work_needs() {
        let mut moderation = Moderation::new(MOST);
        // 80 µs apart, turns of 16 µs are a fifth of the time.
        let gap = under_load(&mut moderation, 6_000, Duration::from_us(16), 200);
        let about = Duration::from_us(60)..=Duration::from_us(100);
        assert!(about.contains(&gap), "{gap}");
    }

    #[test]
    fn long_trains_wait_a_quarter_of_that() {
        let mut moderation = Moderation::new(MOST);
        let gap = under_load(&mut moderation, 60_000, Duration::from_us(30), 100);
        assert_eq!(gap, Duration::from_us(40));
    }

    #[test]
    fn nothing_is_nothing() {
        let mut moderation = Moderation::new(Duration::ZERO);
        let gap = under_load(&mut moderation, 6_000, Duration::from_us(90), 100);
        assert_eq!(gap, Duration::ZERO);
    }
}
