//! Stops of a clock at a given instant, exactly.
//!
//! A thread that stops a clock "at" an instant is always late by its wake-up latency, tens of
//! microseconds. Therefore the published map ends at the instant
//! ([`timeloom_abi::PageMap::ceiling`]): every reader sees the clock stand at exactly that
//! instant, even if the pause that stops the processes comes later. The end of a run is such an
//! instant too, and cannot be removed. A third kind of limit is the bound that is agreed on with
//! other machines ([`super::agreed`]). The clock stops at the earliest of the three.

use std::sync::atomic::Ordering;

use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual};

use super::{ChangeKind, Clock, State, compose};
use crate::error::GuestError;

/// Number that identifies a requested stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop(u64);

impl Clock {
    /// Reserves the stop of the clock for a run until `target`, which begins with
    /// [`Self::stop_as_planned`]. Until then, the clock does not stop by itself.
    ///
    /// # Errors
    /// As for [`Self::stop_at`].
    pub(crate) fn plan_stop(&self, target: Instant<Virtual>) -> Result<Stop, GuestError> {
        let mut state = self.lock();
        self.is_possible(&state, target)?;
        state.planned_stop = Some(target);
        // No other plan has this number.
        Ok(Stop(self.stops.fetch_add(1, Ordering::SeqCst) + 1))
    }

    /// Requests the stop of a plan, unless that was cancelled. Returns false if it was.
    ///
    /// # Errors
    /// Fails if the clock has reached the instant already.
    pub(crate) fn stop_as_planned(&self, plan: Stop) -> Result<bool, GuestError> {
        let mut state = self.lock();
        let target = state.planned_stop.filter(|_| !self.is_forgotten(plan));
        let Some(target) = target else {
            return Ok(false);
        };
        state.planned_stop = None;
        drop(state);
        self.stop_at(target).map(|_| true)
    }

    /// Cancels a plan whose run could not begin.
    pub(crate) fn drop_plan(&self, plan: Stop) {
        let mut state = self.lock();
        if !self.is_forgotten(plan) {
            state.planned_stop = None;
        }
    }

    /// Requests that the clock stop at `target`, through pauses and changes of rate, until
    /// [`Self::forget_stop`]. A stopped clock is not resumed.
    ///
    /// # Errors
    /// Fails if the clock has reached `target` already, or if another stop was requested.
    pub(crate) fn stop_at(&self, target: Instant<Virtual>) -> Result<Stop, GuestError> {
        let mut state = self.lock();
        self.is_possible(&state, target)?;
        state.stop = Some(target);
        self.publish_ceiling(&mut state);
        if state.stop.is_none() {
            return Err(is_past(target, self.now()));
        }
        // Threads that wait for an instant after the stop now wait for the next change of the
        // clock.
        self.changed.notify_all();
        Ok(Stop(self.stops.load(Ordering::SeqCst)))
    }

    fn is_possible(&self, state: &State, target: Instant<Virtual>) -> Result<(), GuestError> {
        if let Some(stop) = state.stop.or(state.planned_stop) {
            return Err(GuestError::Usage(format!(
                "the session runs until {} already (`timeloom pause` ends that)",
                shown(stop)
            )));
        }
        if target > state.end {
            return Err(GuestError::Usage(format!(
                "{} lies beyond the end of the run, at {}",
                shown(target),
                shown(state.end)
            )));
        }
        let now = self.now();
        match now >= target {
            true => Err(is_past(target, now)),
            false => Ok(()),
        }
    }

    /// Returns true if this stop was cancelled before the clock was stopped for it.
    pub(crate) fn is_forgotten(&self, stop: Stop) -> bool {
        self.stops.load(Ordering::SeqCst) != stop.0
    }

    /// Cancels the stop, so that the clock does not stop by itself. A clock that has reached the
    /// instant without being paused continues from there.
    pub(crate) fn forget_stop(&self) {
        let mut state = self.lock();
        if state.planned_stop.take().is_some() {
            self.stops.fetch_add(1, Ordering::SeqCst);
        }
        if state.stop.is_none() {
            return;
        }
        if state.paused_since.is_none() {
            let rate = state.going();
            self.change(&mut state, ChangeKind::Resume, rate);
        }
        state.stop = None;
        self.publish_ceiling(&mut state);
        self.stops.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Returns the virtual time at which the clock stops by itself; [`Instant::FAR_FUTURE`] if
    /// there is none.
    pub(crate) fn stop(&self) -> Instant<Virtual> {
        self.lock().ceiling
    }

    /// Sets the end of the clock, which it never passes. Time after `end` does not count in
    /// [`Self::reckon`]. To be called once, before the clock is resumed.
    pub fn end_at(&self, end: Instant<Virtual>) {
        let mut state = self.lock();
        state.end = end;
        state.history.count_until(end);
        self.publish_ceiling(&mut state);
        self.changed.notify_all();
    }

    /// Publishes the map in force with its present ceiling. If the clock has already passed a
    /// requested stop, the stop is cancelled: no reader may see the clock go back.
    pub(super) fn publish_ceiling(&self, state: &mut State) {
        let calibration = state.calibration.map();
        self.publish_all(state, |state, ticks| {
            let floor = state.published.at(Instant::from_ticks(ticks));
            state.stop = state.stop.filter(|stop| floor <= *stop);
            state.set_ceiling();
            compose(&calibration, state, ticks, floor)
        });
    }

    /// Returns the wall time since the clock last stopped; `None` while the clock runs.
    pub(crate) fn standing_for(&self) -> Option<Duration> {
        let since = self.lock().paused_since?;
        Some(wall_now() - since)
    }
}

fn is_past(target: Instant<Virtual>, now: Instant<Virtual>) -> GuestError {
    GuestError::Usage(format!(
        "{} is in the past: the session's clock shows {}",
        shown(target),
        shown(now)
    ))
}

fn shown(at: Instant<Virtual>) -> String {
    (at - Instant::ZERO).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration as StdDuration;

    use timeloom_clock::RateError;
    use timeloom_clock::host::HostOscillator;

    use super::*;
    use crate::clock::{ClockOptions, HostOptions};
    use crate::linux::memory::PageMapping;

    fn clock(dilation: f64) -> Clock {
        let page = PageMapping::new(c"test-of-stops").expect("a page");
        let options = ClockOptions {
            dilation,
            ..ClockOptions::default()
        };
        Clock::new(Arc::new(page), &options).expect("a clock")
    }

    /// Returns `dilation`. On 64-bit ARM, returns at least the dilation of the fastest clock that a
    /// page can show with a counter of 62.5 MHz.
    fn fast(dilation: f64) -> f64 {
        match cfg!(target_arch = "aarch64") {
            true => dilation.max(0.07),
            false => dilation,
        }
    }

    /// Requests a stop `span` from now. Retries until the stop was still in the future.
    fn stop_ahead(clock: &Clock, span: Duration) -> (Instant<Virtual>, Stop) {
        loop {
            let target = clock.now() + span;
            if let Ok(stop) = clock.stop_at(target) {
                return (target, stop);
            }
        }
    }

    fn fast_host(clock: &Clock) -> Arc<crate::clock::Host> {
        let page = PageMapping::new(c"test-of-stops").expect("a page");
        let options = HostOptions {
            oscillator: HostOscillator {
                frequency: RateError::from_ppb(10_000_000),
                ..HostOscillator::default()
            },
            ..HostOptions::default()
        };
        clock.add_host("fast", page, &options)
    }

    /// Checks the session's clock and that of a host that runs 1 % fast.
    #[test]
    fn the_clock_ends_at_its_instant_before_the_stop() {
        for dilation in [1.0, fast(0.03), 5.0] {
            let clock = clock(dilation);
            let host = fast_host(&clock);
            let before = host.now();
            // A tenth of a second of wall time.
            let span = Duration::from_ns((100e6 / dilation) as i64 + 1);
            let (target, stop) = stop_ahead(&clock, span);
            assert!(clock.wait_until(target, || false));
            std::thread::sleep(StdDuration::from_millis(5));
            let shown = host.now();
            // Any change republishes the map, with the same end.
            clock.calibrate();
            clock.advance_hosts();
            clock.skip_to(target + Duration::from_s(1), || {});
            clock.dilate(dilation * 2.0).expect("a possible factor");
            assert_eq!(clock.now(), target);
            let after = host.now();
            assert!((after - shown).as_ns().abs() <= 2, "{shown:?} {after:?}");
            assert!(after > before, "{before:?} {after:?}");
            assert_eq!(clock.at(clock.wall()), target, "the record agrees");
            assert!(!clock.is_paused() && !clock.is_forgotten(stop));

            assert_eq!(clock.pause(), target);
            let stood = clock.standing_for().expect("it was paused");
            assert!(stood >= Duration::ZERO, "{stood:?}");
            clock.forget_stop();
            assert!(clock.is_forgotten(stop));
            assert_eq!(clock.now(), target, "it stands, stop or no stop");
            clock.resume();
            let later = target + Duration::from_us(50);
            assert!(clock.wait_until(later, || false), "it goes on");
            assert!(host.now() >= after);
        }
    }

    /// At a dilation of 0.01, a thread that stopped the clock would be noticeably late.
    #[test]
    fn no_reader_sees_the_clock_beyond_its_end() {
        let clock = clock(fast(0.01));
        let host = fast_host(&clock);
        let end = clock.now() + Duration::from_s(3);
        clock.end_at(end);
        let stop = clock.stop_at(end - Duration::from_s(1));
        stop.expect("before the end");
        assert!(clock.stop_at(end).is_err(), "one is in force");
        clock.forget_stop();
        let beyond = clock.stop_at(end + Duration::from_ns(1));
        let said = beyond.expect_err("beyond the end").to_string();
        assert!(said.contains("beyond the end of the run"), "{said}");
        assert!(clock.wait_until(end, || false));
        let shown = host.now();
        std::thread::sleep(StdDuration::from_millis(20));
        clock.calibrate();
        clock.skip_to(end + Duration::from_s(1), || {});
        clock.dilate(fast(0.02)).expect("a possible factor");
        assert_eq!(clock.now(), end);
        assert!((host.now() - shown).as_ns().abs() <= 2, "{shown:?}");
        assert_eq!(clock.at(clock.wall()), end);
        let before = clock.reckon();
        assert_eq!(before.virtual_time, end - Instant::ZERO);
        assert!(before.wall >= Duration::from_ms(29), "{before:?}");
        clock.pause();
        std::thread::sleep(StdDuration::from_millis(5));
        clock.resume();
        assert_eq!(clock.now(), end);
        assert_eq!(clock.reckon(), before, "what comes after does not count");
    }

    #[test]
    fn a_pace_that_no_page_can_show_is_refused() {
        let page = PageMapping::new(c"test-of-stops").expect("a page");
        let options = |dilation| ClockOptions {
            dilation,
            ..ClockOptions::default()
        };
        let fast = Clock::new(Arc::new(page), &options(1e-6));
        let said = fast.map(drop).expect_err("too fast").to_string();
        assert!(said.contains("at least 0.0"), "{said}");
        let clock = clock(1.0);
        clock.dilate(1e-6).expect_err("too fast");
        assert_eq!(clock.dilation(), 1.0);
        let least: f64 = said
            .split(' ')
            .find_map(|word| word.parse().ok().filter(|it| *it < 0.5 && *it > 1e-6))
            .expect("a factor");
        clock.dilate(least).expect("the least that was said");
        let (wall, shown) = (clock.wall(), clock.now());
        std::thread::sleep(StdDuration::from_millis(50));
        let (passed, of) = (clock.now() - shown, clock.wall() - wall);
        let pace = passed.as_s_f64() / of.as_s_f64();
        assert!((pace * least - 1.0).abs() < 0.2, "{pace} at {least}");
    }

    #[test]
    fn a_clock_counts_as_paused_since_the_instant() {
        let clock = clock(1.0);
        let (target, _) = stop_ahead(&clock, Duration::from_ms(20));
        assert!(clock.wait_until(target, || false));
        std::thread::sleep(StdDuration::from_millis(20));
        clock.pause();
        let stood = clock.standing_for().expect("it was paused");
        assert!(stood >= Duration::from_ms(20), "{stood:?}");
        assert!(clock.paused_total() >= stood);
        // Wall time is the sum of running time and paused time.
        let before = clock.wall_elapsed();
        let accounted = (target - Instant::ZERO) + clock.paused_total();
        let after = clock.wall_elapsed();
        let slack = Duration::from_us(100);
        assert!(
            (before - slack..=after + slack).contains(&accounted),
            "{before:?} {accounted:?} {after:?}"
        );
    }

    /// The clock does not jump to the instant that it would have reached by now.
    #[test]
    fn a_stop_forgotten_too_late_does_not_let_time_jump() {
        let clock = clock(1.0);
        let (target, _) = stop_ahead(&clock, Duration::from_ms(20));
        assert!(clock.wait_until(target, || false));
        std::thread::sleep(StdDuration::from_millis(50));
        let wall = clock.wall();
        clock.forget_stop();
        let (now, elapsed) = (clock.now() - target, clock.wall() - wall);
        assert!(
            now <= elapsed + Duration::from_us(10),
            "{now:?} {elapsed:?}"
        );
        assert!(clock.stop_at(target).is_err(), "it is past");
        let ahead = clock.now() + Duration::from_s(100);
        clock.stop_at(ahead).expect("none is in force");
        assert!(clock.stop_at(ahead).is_err(), "one is in force");
    }
}
