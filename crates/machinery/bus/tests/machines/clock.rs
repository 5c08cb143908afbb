//! Testbed that the ends of the line command in these tests. It records its state.

use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_bus::{AgreedTestbed, Cause, LocalResumption, TestbedError};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Dilation, Duration, Instant, Virtual, Wall};

pub(crate) const CAUSE: Cause<'static> = Cause {
    requester: "test",
    reason: "test",
};

/// Virtual clock without processes.
#[derive(Default)]
pub(crate) struct Clock(Mutex<State>);

pub(crate) struct State {
    /// Wall time and virtual time at which the clock last continued; `None` while it is stopped.
    pub(crate) goes: Option<(Instant<Wall>, Instant<Virtual>)>,
    ceiling: Option<Instant<Virtual>>,
    /// Agreed stop since the clock last continued.
    until: Instant<Virtual>,
    pub(crate) stands: Option<Instant<Virtual>>,
    /// Virtual instants of all pauses.
    pub(crate) stood: Vec<Instant<Virtual>>,
    /// Wall times at which the clock continued.
    pub(crate) went: Vec<Instant<Wall>>,
    /// Dilation from each of these wall times on.
    pub(crate) dilations: Vec<Dilation>,
    pub(crate) halted: bool,
    /// Dilation that the clock cannot have.
    pub(crate) refuses: Option<Dilation>,
    /// Wall time after which the waiting thread notices that the clock has reached a stop.
    pub(crate) notices_late: StdDuration,
}

impl Default for State {
    fn default() -> Self {
        Self {
            goes: None,
            ceiling: None,
            until: Instant::FAR_FUTURE,
            stands: None,
            stood: Vec::new(),
            went: Vec::new(),
            dilations: Vec::new(),
            halted: false,
            refuses: None,
            notices_late: StdDuration::ZERO,
        }
    }
}

impl State {
    pub(crate) fn shows(&self) -> Instant<Virtual> {
        let Some((at, from)) = self.goes else {
            return self.stands.unwrap_or(Instant::ZERO);
        };
        let dilation = self.dilations.last().copied().unwrap_or(Dilation::ONE);
        let shows = ClockMap::new(at, from, dilation.rate()).at(wall_now());
        self.ceiling.map_or(shows, |ceiling| shows.min(ceiling))
    }
}

impl Clock {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl AgreedTestbed for Clock {
    fn hold_alone(&self) -> Result<(), TestbedError> {
        Ok(())
    }

    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError> {
        let mut state = self.state();
        let shows = state.shows();
        let ceiling = at_least.map_or(shows + lead, |at_least| at_least.max(shows));
        let ceiling = state.ceiling.map_or(ceiling, |stop| ceiling.min(stop));
        state.ceiling = Some(ceiling);
        Ok(ceiling)
    }

    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError> {
        let ahead = {
            let mut state = self.state();
            assert!(state.shows() <= at, "past {at:?} already");
            assert!(at <= state.until, "past the stop {:?}", state.until);
            state.ceiling = Some(at);
            let dilation = state.dilations.last().map_or(1.0, |it| it.factor());
            (at - state.shows()).as_ns() as f64 * dilation
        };
        thread::sleep(StdDuration::from_nanos(ahead.ceil() as u64));
        let mut state = self.state();
        (state.goes, state.stands) = (None, Some(at));
        state.stood.push(at);
        Ok(())
    }

    fn resume(&self, resumption: LocalResumption) -> Result<(), TestbedError> {
        let LocalResumption {
            from,
            at,
            dilation,
            until,
        } = resumption;
        if self.state().refuses == Some(dilation) {
            return Err(TestbedError::new("this clock cannot be so fast"));
        }
        while wall_now() < at {
            thread::sleep(StdDuration::from_micros(50));
        }
        let mut state = self.state();
        assert_eq!(state.stands, Some(from), "no jump");
        (state.goes, state.stands) = (Some((at, from)), None);
        state.ceiling = (until < Instant::FAR_FUTURE).then_some(until);
        state.until = until;
        state.went.push(at);
        state.dilations.push(dilation);
        Ok(())
    }

    fn wait_for(&self, at: Instant<Virtual>, give_up: &dyn Fn() -> bool) -> bool {
        while self.state().shows() < at {
            if give_up() {
                return false;
            }
            thread::sleep(StdDuration::from_micros(200));
        }
        let late = self.state().notices_late;
        thread::sleep(late);
        true
    }

    fn wake(&self) {}

    fn halt(&self) {
        self.state().halted = true;
    }
}
