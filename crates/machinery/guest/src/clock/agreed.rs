//! Pauses of a clock at an instant that several machines agree on.
//!
//! Before the common instant of the pause is known, the clock gets an upper bound; the bound is
//! later raised to exactly that instant. The clock resumes as if it had been resumed at an instant
//! that all machines have agreed on, so that the resumption does not depend on wake-up latencies of
//! this machine's threads. A bound is independent of the stop and the end of [`super::stop`]. The
//! clock stops at the earliest of the three.

use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Virtual, Wall};

use super::history::Change;
use super::waiting::Awaited;
use super::{ChangeKind, Clock, compose};

impl Clock {
    /// Limits the clock to `at_least`, or, if that is `None`, to `lead` after its present time. The
    /// bound is not lower than the present time, and not higher than the clock's end and than a
    /// bound in force. Returns the bound; no reader sees a later instant.
    pub fn bound_at(&self, lead: Duration, at_least: Option<Instant<Virtual>>) -> Instant<Virtual> {
        let mut state = self.lock();
        let calibration = state.calibration.map();
        self.publish_all(&mut state, |state, ticks| {
            let shown = state.published.at(Instant::from_ticks(ticks));
            // All clocks of a run have the same end and the same agreed stop, which is the bound in
            // force, so no clock would reach a later bound.
            let bound = at_least.unwrap_or(shown + lead);
            state.bound = bound.min(state.end).min(state.bound).max(shown);
            state.set_ceiling();
            compose(&calibration, state, ticks, shown)
        });
        self.changed.notify_all();
        state.bound
    }

    /// Raises the bound to `to`. A clock that stands at its bound continues from there without a
    /// jump.
    pub fn raise_bound(&self, to: Instant<Virtual>) {
        let mut state = self.lock();
        if state.bound >= to {
            return;
        }
        if state.paused_since.is_none() && state.map.at(wall_now()) >= state.ceiling {
            let rate = state.going();
            self.change(&mut state, ChangeKind::Resume, rate);
        }
        state.bound = to;
        self.publish_ceiling(&mut state);
        self.changed.notify_all();
    }

    /// Sets the bound of a stopped clock, without resuming it; [`Instant::FAR_FUTURE`] for none.
    pub(crate) fn set_bound(&self, to: Instant<Virtual>) {
        let mut state = self.lock();
        if state.bound != to {
            state.bound = to;
            self.publish_ceiling(&mut state);
        }
    }

    /// Waits until the clock shows `at`, was paused by another caller, or stands at another stop.
    pub(crate) fn wait_for_bound(&self, at: Instant<Virtual>) {
        // This instant has no effect on programs.
        self.wait_for(&[Awaited::Background(at)], |state| {
            let now = self.now();
            // A stop of this clock alone before `at` must not be waited out: it may never end.
            let is_stuck = state.ceiling < at && now >= state.ceiling;
            state.paused_since.is_some() || now >= at || is_stuck
        });
    }

    /// Resumes a clock that stands at `from`, or has shown nothing later, as if it had been resumed
    /// at the wall instant `at`. The clock at once shows the time that has passed since then. The
    /// bound is `until` from now on; [`Instant::FAR_FUTURE`] for none. Returns the wall time since
    /// `at`.
    pub fn resume_as_of(
        &self,
        from: Instant<Virtual>,
        at: Instant<Wall>,
        until: Instant<Virtual>,
    ) -> Duration {
        while wall_now() < at {
            std::hint::spin_loop();
        }
        let mut state = self.lock();
        let rate = state.going();
        state.bound = until;
        state.set_ceiling();
        state.map = ClockMap::new(at, from, rate);
        let calibration = state.calibration.map();
        self.publish_all(&mut state, |state, ticks| {
            let floor = state.published.at(Instant::from_ticks(ticks)).max(from);
            compose(&calibration, state, ticks, floor)
        });
        let map = state.map;
        state.history.push(Change {
            kind: ChangeKind::Resume,
            map,
        });
        if let Some(since) = state.paused_since.take() {
            state.paused_total += at - since;
        }
        self.notify();
        wall_now() - at
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ClockOptions;
    use crate::linux::memory::PageMapping;

    fn clock() -> Clock {
        let page = PageMapping::new(c"test-of-bounds").expect("a page");
        Clock::new(Arc::new(page), &ClockOptions::default()).expect("a clock")
    }

    /// The earlier of two stops counts, and the later one stays in force.
    #[test]
    fn a_clock_has_several_stops_at_once() {
        let clock = clock();
        let bound = clock.bound_at(Duration::from_ms(50), None);
        let far = bound + Duration::from_s(100);
        clock.stop_at(far).expect("it is ahead");
        assert!(clock.wait_until(bound, || false));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(clock.now(), bound);
        clock.forget_stop();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(clock.now(), bound, "the bound holds");

        let near = bound + Duration::from_ms(20);
        clock.stop_at(near).expect("it is ahead");
        let end = bound + Duration::from_ms(40);
        clock.raise_bound(end);
        assert!(clock.wait_until(near, || false));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(clock.now(), near, "the stop comes first");
        clock.forget_stop();
        assert!(clock.wait_until(end, || false));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(clock.now(), end);
        assert_eq!(clock.pause(), end);
    }

    /// If the run ends before a bound could be reached, the bound is that end. Otherwise all
    /// machines would wait for an instant that never comes.
    #[test]
    fn a_bound_beyond_the_end_is_the_end() {
        let clock = clock();
        let end = clock.now() + Duration::from_ms(20);
        clock.end_at(end);
        assert_eq!(clock.bound_at(Duration::from_s(1), None), end);
        let later = Some(end + Duration::from_s(2));
        assert_eq!(clock.bound_at(Duration::ZERO, later), end);
        clock.wait_for_bound(end);
        assert_eq!(clock.now(), end);
    }

    /// No bound lets the clock pass the end of the run, and a bound before the end holds.
    #[test]
    fn a_bound_stands_beside_the_end() {
        let clock = clock();
        let bound = clock.bound_at(Duration::from_ms(50), None);
        let end = bound + Duration::from_ms(20);
        clock.end_at(end);
        assert!(clock.wait_until(bound, || false));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(clock.now(), bound, "the bound comes first");
        clock.raise_bound(end + Duration::from_s(1));
        assert!(clock.wait_until(end, || false));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(clock.now(), end);
        assert_eq!(clock.pause(), end);
        clock.resume_as_of(end, wall_now(), Instant::FAR_FUTURE);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(clock.now(), end, "without a bound it is still the end");
        assert_eq!(clock.reckon().virtual_time, end - Instant::ZERO);
    }

    /// No reader sees an instant beyond the bound, or a jump when the bound is raised.
    #[test]
    fn a_bound_that_comes_late_is_where_the_clock_is() {
        let clock = clock();
        let past = clock.now();
        let bound = clock.bound_at(Duration::ZERO, Some(past));
        assert!(bound >= past);
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(clock.now(), bound);
        let before = wall_now();
        clock.raise_bound(bound + Duration::from_s(100));
        let (shown, passed) = (clock.now() - bound, wall_now() - before);
        assert!(
            shown <= passed + Duration::from_us(10),
            "{shown:?} {passed:?}"
        );
    }

    /// The clock runs as agreed, even if the thread that resumes it is late.
    #[test]
    fn the_clock_continues_as_of_the_agreed_instant() {
        let clock = clock();
        for round in 0..20 {
            let bound = clock.bound_at(Duration::from_us(100), None);
            assert!(clock.wait_until(bound, || false));
            assert_eq!(clock.pause(), bound);
            let at = wall_now() + Duration::from_ms(round % 3 * 2 - 1);
            let late = clock.resume_as_of(bound, at, Instant::FAR_FUTURE);
            assert!(!late.is_negative());
            let before = wall_now();
            let shown = clock.now();
            let after = wall_now();
            let slack = Duration::from_us(100);
            let line = ClockMap::<Wall, Virtual>::new(at, bound, timeloom_time::Rate::ONE);
            assert!(
                shown >= line.at(before - slack) && shown <= line.at(after + slack),
                "{shown:?} {before:?} {after:?}"
            );
            assert!(!clock.is_paused());
        }
    }

    /// A clock does not pass the stop with which it was resumed, also if it is paused before, and
    /// passes it after the next resumption.
    #[test]
    fn the_clock_stops_where_it_was_agreed() {
        let clock = clock();
        let first = clock.bound_at(Duration::from_us(100), None);
        assert!(clock.wait_until(first, || false));
        assert_eq!(clock.pause(), first);
        let until = first + Duration::from_ms(20);
        clock.resume_as_of(first, wall_now(), until);
        assert_eq!(clock.bound_at(Duration::from_s(1), None), until);
        assert!(clock.wait_until(until, || false));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(clock.now(), until);
        assert_eq!(clock.pause(), until);
        clock.resume_as_of(until, wall_now(), Instant::FAR_FUTURE);
        assert!(clock.wait_until(until + Duration::from_ms(1), || false));
    }

    /// A clock whose dilation is changed while it stands continues with the new one from the agreed
    /// instant, and shows nothing of the change before.
    #[test]
    fn the_clock_continues_with_the_agreed_dilation() {
        let clock = clock();
        for factor in [3.0, 0.5, 10.0] {
            let bound = clock.bound_at(Duration::from_us(100), None);
            assert!(clock.wait_until(bound, || false));
            assert_eq!(clock.pause(), bound);
            clock.dilate(factor).expect("a dilation");
            let at = wall_now() + Duration::from_ms(2);
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(clock.now(), bound, "it stands");
            clock.resume_as_of(bound, at, Instant::FAR_FUTURE);
            std::thread::sleep(std::time::Duration::from_millis(20));
            let dilation = clock.check_dilation(factor).expect("a dilation");
            let line = ClockMap::<Wall, Virtual>::new(at, bound, dilation.rate());
            let before = wall_now();
            let shown = clock.now();
            let after = wall_now();
            let slack = Duration::from_us(100);
            assert!(
                shown >= line.at(before - slack) && shown <= line.at(after + slack),
                "{factor}: {shown:?} {before:?} {after:?}"
            );
        }
    }
}
