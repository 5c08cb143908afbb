//! Pause of the worker's loop between two iterations.
//!
//! The cost of an iteration is nearly independent of the number of frames. It consists of the
//! sleep, the system calls, and the way through the receiving kernel. A loop that has been busy for
//! long therefore pauses after each iteration and finds more frames in the next one, as drivers of
//! network cards do (Linux calls this DIM). A loop with little load does not pause, so a single
//! frame is served at once and on time.

use timeloom_time::{Duration, Instant, Wall};

/// Controller of the pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moderation {
    most: Duration,
    /// Present minimum interval between the starts of two iterations.
    gap: Duration,
    /// Wall time of the last decision, and the thread's processor time then, both in nanoseconds.
    since: Option<[i64; 2]>,
    frames: u64,
    bytes: u64,
}

impl Moderation {
    /// Creates a controller whose longest pause is `most`.
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            most,
            gap: Duration::ZERO,
            since: None,
            frames: 0,
            bytes: 0,
        }
    }

    /// Records a frame of `bytes` bytes that was received from a portal or sent to one.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }

    /// Returns the minimum interval from the start of this iteration to that of the next one. The
    /// iteration moved frames and ended at `now`. `worked` returns the processor time of the
    /// thread; it is called rarely.
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
                // After a long time without frames, the state is as at the start.
                self.gap.as_ns() - step.saturating_mul(looked / LOOK.as_ns())
            };
            self.gap = Duration::from_ns(gap.clamp(0, most));
            self.since = Some([now, worked]);
            (self.frames, self.bytes) = (0, 0);
        }
        self.gap
    }
}

/// Interval between two decisions.
const LOOK: Duration = Duration::from_ms(1);
/// Iterations are spaced out when they take more than the fraction 1/`AT_WORK` of the time.
const AT_WORK: i64 = 5;
/// Number of steps from no pause to the longest pause.
const STEPS: i64 = 16;
/// Mean frame length in bytes above which the pause is limited to a quarter of the longest one.
/// Joining saves little for such frames, and their senders wait for each acknowledgement.
const LONG: u64 = 24_576;

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_us(160);

    /// Simulates a thread that receives frames of `bytes` bytes one after another for `ms`
    /// milliseconds, with iterations that take `turn`. Returns the final minimum interval.
    fn under_load(moderation: &mut Moderation, bytes: usize, turn: Duration, ms: i64) -> Duration {
        let (mut now, mut worked) = (Instant::from_ns(5), Duration::ZERO);
        let end = now + Duration::from_ms(ms);
        let mut gap = Duration::ZERO;
        // The thread has used processor time before.
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
    fn a_thread_with_little_work_does_not_rest() {
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
    fn a_busy_thread_rests_longest_until_there_is_silence() {
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
        // If iterations of 16 µs begin every 80 µs, they take a fifth of the time.
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
