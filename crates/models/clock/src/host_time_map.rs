//! Rate of a host's time relative to the session's virtual time.
//!
//! A machine can be suspended, overloaded or migrated while the rest of the world goes on: less
//! time then passes for this machine than for the others. Between the session's virtual time and a
//! host's clocks ([`crate::host`]) there is therefore one more map, with a rate and an offset that
//! an experimenter commands. No time passes for a held host, and more or less time passes for a
//! dilated one. A host that missed time stays behind, and so do its clocks until they are set.

use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual};

use crate::scale::HostTime;

/// Host time as a map from session time. By default, host time equals session time.
///
/// Every `now` is session time, and must never decrease. No change makes the host's time jump.
#[derive(Clone, Debug)]
pub struct HostTimeMap {
    /// Map in force; it does not include the stop at `end`.
    map: ClockMap<Virtual, HostTime>,
    /// Rate while the host is not held: host time per session time.
    running: Rate,
    factor: f64,
    held: bool,
    /// Host time at which the host stops by itself; [`Instant::FAR_FUTURE`] for never.
    end: Instant<HostTime>,
}

impl Default for HostTimeMap {
    fn default() -> Self {
        Self {
            map: ClockMap::new(Instant::ZERO, Instant::ZERO, Rate::ONE),
            running: Rate::ONE,
            factor: 1.0,
            held: false,
            end: Instant::FAR_FUTURE,
        }
    }
}

impl HostTimeMap {
    /// Returns the host's time at session time `now`.
    pub fn at(&self, now: Instant<Virtual>) -> Instant<HostTime> {
        self.map.at(now).min(self.end)
    }

    /// Returns session time minus host time: the time that the host has missed. Negative if the
    /// host is ahead.
    pub fn behind(&self, now: Instant<Virtual>) -> Duration {
        (now - Instant::ZERO) - (self.at(now) - Instant::ZERO)
    }

    /// Returns the session time at which the host's time reaches `at`, at the current rate. Returns
    /// `None` if it never does, because the host is held or stops before `at`.
    pub fn first_reaching(&self, at: Instant<HostTime>) -> Option<Instant<Virtual>> {
        if at > self.end {
            return None;
        }
        self.map.first_reaching(at)
    }

    /// Returns the present rate of host time per session time, valid until the end; 0 while the
    /// host is held.
    pub fn rate(&self) -> Rate {
        self.map.rate
    }

    /// Returns the rate of host time per session time while the host is not held.
    pub fn running(&self) -> Rate {
        self.running
    }

    /// Returns the dilation: seconds of session time per second of host time, while the host is not
    /// held.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Returns true if the host is held, that is, its time is stopped.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the host time at which the host stops by itself; [`Instant::FAR_FUTURE`] for never.
    pub fn end(&self) -> Instant<HostTime> {
        self.end
    }

    /// Stops the host's time from session time `now` on.
    pub fn hold(&mut self, now: Instant<Virtual>) {
        self.held = true;
        self.go_on(now);
    }

    /// Continues the host's time, from the value at which it is stopped.
    pub fn release(&mut self, now: Instant<Virtual>) {
        self.held = false;
        self.go_on(now);
    }

    /// Sets the dilation: from `now` on, or from the release of a held host, a second of the host
    /// takes `factor` seconds of the session. Returns false, without a change, unless `factor` is
    /// from 0.001 to 1000.
    pub fn dilate(&mut self, now: Instant<Virtual>, factor: f64) -> bool {
        let rate = Rate::from_f64(factor)
            .filter(|_| (1.0 / MOST..=MOST).contains(&factor))
            .and_then(Rate::inverse);
        let Some(rate) = rate else { return false };
        self.running = rate;
        self.factor = factor;
        self.go_on(now);
        true
    }

    /// Sets the host time at which the host stops by itself. Returns false, without a change, if
    /// `end` is not in the host's future. [`Self::forget_end`] removes the end.
    pub fn end_at(&mut self, now: Instant<Virtual>, end: Instant<HostTime>) -> bool {
        let ahead = self.at(now) < end;
        if ahead {
            self.end = end;
        }
        ahead
    }

    /// Removes the end. A host that is stopped at its end continues from there.
    pub fn forget_end(&mut self, now: Instant<Virtual>) {
        self.go_on(now);
        self.end = Instant::FAR_FUTURE;
    }

    fn go_on(&mut self, now: Instant<Virtual>) {
        let rate = if self.held {
            Rate::STOPPED
        } else {
            self.running
        };
        self.map = ClockMap::new(now, self.at(now), rate);
    }
}

/// Limit of the dilation: a thousand times slower or faster than the session. The session itself
/// may be a million times slower or faster than the machine; the product of the two rates still has
/// fifteen significant bits in a clock page.
const MOST: f64 = 1e3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use timeloom_time::Wall;

    fn at_ms(ms: i64) -> Instant<Virtual> {
        Instant::from_ns(ms * 1_000_000)
    }

    fn lived_ms(ms: i64) -> Instant<HostTime> {
        Instant::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_held_host_stays_behind_by_the_length_of_the_hold() {
        let mut time_map = HostTimeMap::default();
        assert_eq!(time_map.behind(at_ms(50)), Duration::ZERO);
        time_map.hold(at_ms(100));
        assert_eq!(time_map.at(at_ms(900)), lived_ms(100));
        assert_eq!(time_map.first_reaching(lived_ms(101)), None);
        time_map.release(at_ms(1_100));
        assert_eq!(time_map.at(at_ms(1_500)), lived_ms(500));
        assert_eq!(time_map.behind(at_ms(1_500)), Duration::from_ms(1_000));
        assert_eq!(time_map.first_reaching(lived_ms(600)), Some(at_ms(1_600)));
    }

    #[test]
    fn a_rate_given_while_it_is_held_counts_from_its_release_on() {
        let mut time_map = HostTimeMap::default();
        time_map.hold(at_ms(100));
        assert!(time_map.dilate(at_ms(200), 2.0));
        assert_eq!(time_map.at(at_ms(300)), lived_ms(100));
        time_map.release(at_ms(300));
        assert_eq!(time_map.at(at_ms(500)), lived_ms(200));
        for impossible in [0.0, -1.0, f64::INFINITY, f64::NAN, 1e4, 1e-4] {
            assert!(!time_map.dilate(at_ms(500), impossible), "{impossible}");
        }
        assert_eq!(time_map.factor(), 2.0);
    }

    /// The host's time stops at its end to the nanosecond, even if the caller notices the end late.
    #[test]
    fn own_time_goes_no_further_than_its_end() {
        let mut time_map = HostTimeMap::default();
        assert!(time_map.dilate(at_ms(0), 0.3));
        assert!(!time_map.end_at(at_ms(3), lived_ms(10)), "it is there");
        assert!(time_map.end_at(at_ms(3), Instant::from_ns(10_000_001)));
        assert_eq!(time_map.at(at_ms(500)), Instant::from_ns(10_000_001));
        assert_eq!(time_map.first_reaching(lived_ms(11)), None);
        let due = time_map.first_reaching(Instant::from_ns(10_000_001));
        assert_eq!(due, Some(Instant::from_ns(3_000_001)));
        time_map.forget_end(at_ms(500));
        assert_eq!(time_map.at(at_ms(500)), Instant::from_ns(10_000_001));
        assert!(time_map.at(at_ms(503)) > lived_ms(19), "and on from there");
    }

    /// Step of a random history of a session and a host.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        PauseSession,
        ResumeSession,
        DilateSession(u64),
        Hold,
        Release,
        Dilate(u64),
        EndAfter(i64),
        ForgetEnd,
        /// Advances time by this length; the other steps happen between such advances.
        Skip(i64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::PauseSession),
            Just(Step::ResumeSession),
            (1u64..40).prop_map(Step::DilateSession),
            Just(Step::Hold),
            Just(Step::Release),
            (1u64..40).prop_map(Step::Dilate),
            (1i64..1 << 32).prop_map(Step::EndAfter),
            Just(Step::ForgetEnd),
            (0i64..1 << 32).prop_map(Step::Skip),
        ]
    }

    proptest! {
        /// The maps are nested as in a session: wall time → virtual time → host time.
        #[test]
        fn nested_maps_never_go_back_and_are_exact_at_changes(
            steps in prop::collection::vec((0i64..1 << 32, any_step()), 1..60)
        ) {
            let mut session = ClockMap::<Wall, Virtual>::new(Instant::ZERO, Instant::ZERO, Rate::ONE);
            let (mut running, mut paused) = (Rate::ONE, false);
            let mut time_map = HostTimeMap::default();
            let mut wall = Instant::<Wall>::ZERO;
            let (mut last, mut expected) = (time_map.at(session.at(wall)), 0.0f64);
            for (length, step) in &steps {
                // Check an instant within the step, and the step's end.
                let begun = session.at(wall);
                for part in [3, 1] {
                    let lived = time_map.at(session.at(wall + Duration::from_ns(length / part)));
                    prop_assert!(lived >= last, "{:?} after {:?}", lived, last);
                    prop_assert!(lived <= time_map.end());
                    last = lived;
                }
                wall += Duration::from_ns(*length);
                let now = session.at(wall);
                // Host time, computed independently of the maps.
                expected += (now - begun).as_ns() as f64 * time_map.rate().as_f64();
                expected = expected.min(time_map.end().as_ns() as f64);
                let mut skipped = Duration::ZERO;
                match *step {
                    Step::PauseSession => paused = true,
                    Step::ResumeSession => paused = false,
                    Step::DilateSession(tenths) => running = Rate::from_ratio(10, tenths).expect("not zero"),
                    Step::Hold => time_map.hold(now),
                    Step::Release => time_map.release(now),
                    Step::Dilate(tenths) => prop_assert!(time_map.dilate(now, tenths as f64 / 10.0)),
                    Step::EndAfter(span) => {
                        time_map.forget_end(now);
                        prop_assert!(time_map.end_at(now, time_map.at(now) + Duration::from_ns(span)));
                    }
                    Step::ForgetEnd => time_map.forget_end(now),
                    Step::Skip(span) if !paused => skipped = Duration::from_ns(span),
                    Step::Skip(_) => {}
                }
                prop_assert_eq!(time_map.at(now), last, "a change must not let it jump");
                session = ClockMap::new(wall, now + skipped, if paused { Rate::STOPPED } else { running });
                expected += skipped.as_ns() as f64 * time_map.rate().as_f64();
                expected = expected.min(time_map.end().as_ns() as f64);
                last = time_map.at(session.at(wall));
                // The host reaches a target at the predicted instant, and not before.
                let target = last + Duration::from_us(7);
                if let Some(due) = time_map.first_reaching(target) {
                    prop_assert!(time_map.at(due) >= target);
                    prop_assert!(time_map.at(due - Duration::from_ns(1)) < target);
                }
            }
            let off = (last.as_ns() as f64 - expected).abs();
            // Each rounding may add an error of one nanosecond.
            prop_assert!(off <= 3.0 + 2.0 * steps.len() as f64, "{} ns off", off);
        }

        /// A host is held within a pause of the session, for longer than the pause, or across one
        /// of the pause's ends. Host time passes while neither is in force.
        #[test]
        fn holds_and_pauses_nest_in_any_order(
            hold in (0i64..1 << 32, 0i64..1 << 32),
            pause in (0i64..1 << 32, 0i64..1 << 32),
        ) {
            let order = |(a, b): (i64, i64)| (a.min(b), a.max(b));
            let (hold, pause) = (order(hold), order(pause));
            let mut session = ClockMap::<Wall, Virtual>::new(Instant::ZERO, Instant::ZERO, Rate::ONE);
            let mut time_map = HostTimeMap::default();
            let mut changes = [(hold.0, 0), (hold.1, 1), (pause.0, 2), (pause.1, 3)];
            changes.sort_unstable();
            for (at, what) in changes {
                let wall = Instant::<Wall>::from_ns(at);
                match what {
                    0 => time_map.hold(session.at(wall)),
                    1 => time_map.release(session.at(wall)),
                    2 => session = session.continued(wall, Rate::STOPPED),
                    _ => session = session.continued(wall, Rate::ONE),
                }
            }
            let end = 1i64 << 33;
            let both = (hold.1.min(pause.1) - hold.0.max(pause.0)).max(0);
            let stood = (hold.1 - hold.0) + (pause.1 - pause.0) - both;
            let shown = session.at(Instant::from_ns(end));
            prop_assert_eq!(time_map.at(shown).as_ns(), end - stood);
            let missed = (hold.1 - hold.0) - both;
            prop_assert_eq!(time_map.behind(shown), Duration::from_ns(missed));
        }
    }
}
