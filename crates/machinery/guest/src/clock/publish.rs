//! Publication of a new map. It is computed while all pages are closed, published at one counter
//! value, and never below a value that a reader has seen.

use parking_lot::MutexGuard;

use timeloom_abi::PageMap;
use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

use super::history::Change;
use super::host_state::Moment;
use super::{ChangeKind, Clock, State};

impl Clock {
    /// Measures the machine's clock again and steers the map counter → wall to it. To be called
    /// about once a second.
    pub(crate) fn calibrate(&self) {
        let mut state = self.lock();
        let sample = self.counter.sample();
        let calibration = state.calibration.steered(sample);
        state.calibration = calibration;
        // Readers used the old map, which rounds differently, so its value is a lower bound.
        self.publish_all(&mut state, |state, ticks| {
            let floor = state.published.at(Instant::from_ticks(ticks));
            compose(&calibration.map(), state, ticks, floor)
        });
    }

    /// Checks that the kernel still keeps time with the counter that guests read. Returns a
    /// sentence for the user the first time that it does not. To be called as often as
    /// [`Self::calibrate`].
    pub(crate) fn look_at_counter(&self) -> Option<&str> {
        if self.distrusted.get().is_some() {
            return None;
        }
        let other = self.counter.left_for()?;
        Some(self.distrusted.get_or_init(|| {
            format!(
                "The kernel no longer keeps time with the processor's counter, but with {other}: \
                 it has found that counter unstable, or an administrator has selected another. \
                 Guests have read the counter since the session began."
            )
        }))
    }

    /// Publishes a new map on the session's page, and the resulting maps on the pages of all hosts,
    /// at one instant: all pages are closed before the counter is read and passed to `next`.
    pub(super) fn publish_all(
        &self,
        state: &mut State,
        next: impl FnOnce(&mut State, u64) -> PageMap<Virtual>,
    ) {
        let calibration = state.calibration.map();
        for host in &state.hosts {
            host.page().page().close();
        }
        let map = self.page.page().publish(
            || self.counter.ticks(),
            |ticks| {
                let map = next(state, ticks);
                let wall = calibration.at(map.map.in0);
                let moment = Moment {
                    virtual_map: map.map,
                    ceiling: map.ceiling,
                    running: state.waiting(),
                    wall,
                    virtual_per_wall: state.map.rate,
                    onset: state.onset(wall),
                };
                for host in &mut state.hosts {
                    host.open(&moment);
                }
                map
            },
        );
        state.published = map;
    }

    /// Puts a new rate, virtual time per wall time, in force now. Returns the virtual time of the
    /// change.
    pub(super) fn change(
        &self,
        state: &mut MutexGuard<'_, State>,
        kind: ChangeKind,
        rate: Rate,
    ) -> Instant<Wall> {
        let at = self.put_in_force(state, kind, rate, Instant::ZERO);
        self.notify();
        at
    }

    /// Puts a new rate, virtual time per wall time, in force now, without notifying waiting
    /// threads. The clock continues from `at_least`, if that is later than its present time.
    /// Returns the virtual time of the change.
    pub(super) fn put_in_force(
        &self,
        state: &mut MutexGuard<'_, State>,
        kind: ChangeKind,
        rate: Rate,
        at_least: Instant<Virtual>,
    ) -> Instant<Wall> {
        let old = state.map;
        let calibration = state.calibration.map();
        self.publish_all(state, |state, ticks| {
            let ticks = Instant::from_ticks(ticks);
            let mut next = old.continued(calibration.at(ticks), rate);
            next.out0 = next.out0.max(state.published.at(ticks)).max(at_least);
            if next.out0 >= state.ceiling {
                next.out0 = state.ceiling;
                // The clock has not moved since it reached its ceiling.
                let since = old
                    .first_reaching(next.out0)
                    .filter(|_| rate == Rate::STOPPED);
                next.in0 = since.map_or(next.in0, |since| since.min(next.in0));
            }
            state.map = next;
            compose(&calibration, state, ticks.as_ticks(), next.out0)
        });
        let next = state.map;
        // A paused clock keeps its map, whatever its rate will be.
        if kind != ChangeKind::Dilate || state.paused_since.is_none() {
            state.history.push(Change { kind, map: next });
        }
        next.in0
    }
}

/// Returns the composition counter → wall → virtual as one map that starts at `ticks`. It does not
/// exceed the state's ceiling, and is not below `floor`: two maps through the same point round
/// differently, and no reader may see a step back of even a nanosecond.
pub(super) fn compose(
    calibration: &ClockMap<timeloom_time::Counter, Wall>,
    state: &State,
    ticks: u64,
    floor: Instant<Virtual>,
) -> PageMap<Virtual> {
    let offsets = &state.offsets;
    let here = calibration.continued(Instant::from_ticks(ticks), calibration.rate);
    let line = here.then(&state.map);
    let shown = line.out0.min(state.ceiling).max(floor);
    PageMap {
        map: ClockMap::new(line.in0, shown, line.rate),
        ceiling: state.ceiling,
        // This value is kept while paused: a timeout that is computed just then must be finite.
        wall_per_shown: state.waiting().inverse().unwrap_or(Rate::ONE),
        realtime_offset_ns: offsets.realtime_ns,
        monotonic_offset_ns: offsets.monotonic_ns,
        boottime_offset_ns: offsets.boottime_ns,
        tai_offset_ns: offsets.tai_ns(),
        // A session has no oscillator; each host's page has one.
        raw0: Instant::ZERO,
        raw_rate: Rate::STOPPED,
        raw_ceiling: Instant::FAR_FUTURE,
    }
}
