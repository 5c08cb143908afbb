//! Session whose pauses are agreed on with other machines.

use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;

use timeloom_agreement::{LeadMode, Settings};
use timeloom_bus::{AgreedTestbed, Bus, CommonTimeline, LocalResumption, TestbedError};
use timeloom_clock::TimelineTime;
use timeloom_guest::{HoldError, Session};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Dilation, Duration, Instant, Rate, Virtual, Wall};

/// Record of an agreed pause on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedPause {
    /// Sequence number. Number 0 is the pause before the start.
    pub number: u64,
    /// Virtual instant at which all clocks stopped.
    pub at: Instant<Virtual>,
    /// True if this machine requested the pause, or was about to.
    pub asked: bool,
    /// Virtual time by which `at` was ahead of this machine's clock when the clock was told to stop
    /// there.
    pub ahead: Option<Duration>,
    /// Deviation of this machine's clock from the agreed line just before the pause, and the error
    /// bound of that comparison. The agreed line maps the common timeline, as read on this machine,
    /// to virtual time.
    pub deviation: Option<(Duration, Duration)>,
    /// Error bound of this machine's reading of the common timeline just before the pause.
    pub timeline_error: Option<Duration>,
    /// Instant from which all processes on this machine were stopped.
    pub stood: Option<Instant<Wall>>,
    /// Instant at which all machines resumed.
    pub resumed: Instant<Wall>,
    /// Delay between `resumed` and the instant at which this machine's clock ran again.
    pub late: Duration,
    /// Dilation of all clocks from `at` on.
    pub dilation: Dilation,
    /// True if the clocks had another dilation before the pause.
    pub changed: bool,
}

/// Callback that receives the record of each pause when the pause ends.
pub type PauseCallback = Box<dyn FnMut(&AgreedPause) + Send>;

/// Virtual instant at which a machine's clock stops in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The agreed instant, which is the same on all machines.
    Agreed,
    /// The instant at which this machine saw the edge on the wire; it differs between machines.
    OwnEdge,
}

/// Returns a callback that writes each pause to `log` as one line of JSON.
pub fn json_lines(mut log: Box<dyn Write + Send>, anchor: Anchor) -> PauseCallback {
    let anchor = match anchor {
        Anchor::Agreed => "agreed",
        Anchor::OwnEdge => "own edge",
    };
    Box::new(move |pause| {
        let line = serde_json::json!({
            "pause": pause.number,
            "at_ns": pause.at.as_ns(),
            "anchor": anchor,
            "asked": pause.asked,
            "ahead_ns": pause.ahead.map(Duration::as_ns),
            "deviation_ns": pause.deviation.map(|(deviation, _)| deviation.as_ns()),
            "deviation_error_ns": pause.deviation.map(|(_, error)| error.as_ns()),
            "timeline_error_ns": pause.timeline_error.map(Duration::as_ns),
            "stood_for_ns": pause.stood.map(|stood| (pause.resumed - stood).as_ns()),
            "resumed_wall_ns": pause.resumed.as_ns(),
            "late_ns": pause.late.as_ns(),
            "dilation": pause.dilation.factor(),
        });
        // A full log must not end a run; missing lines show as gaps in the pause numbers.
        let _ = writeln!(log, "{line}").and_then(|()| log.flush());
    })
}

/// Returns the settings of agents that announce pauses `look_ahead` in advance; `None` stops the
/// clock at once. An agent that is silent for longer than `patience` counts as lost.
pub fn settings(look_ahead: Option<Duration>, patience: Duration) -> Settings {
    let beat = Duration::from_ns(patience.as_ns() / 8);
    Settings {
        mode: look_ahead.map_or(LeadMode::Immediate, LeadMode::Scheduled),
        patience,
        beat: beat.max(Duration::from_ms(1)),
        ..Settings::default()
    }
}

/// Adapter through which the agreement between machines stops and resumes a session. Records the
/// pauses.
pub struct AgreedSession {
    session: Arc<Session>,
    /// Timeline shared by the machines; `None` if they share only a wire.
    timeline: Option<Arc<dyn CommonTimeline>>,
    state: Mutex<State>,
}

struct State {
    hear: Option<PauseCallback>,
    pauses: u64,
    /// Latest common resumption of all machines' clocks; `None` before the first.
    began: Option<Began>,
    pause: Pause,
}

/// A common resumption: its wall instant on this machine, and the virtual time from which the
/// clocks ran, with their dilation.
#[derive(Clone, Copy, Debug)]
struct Began {
    /// The same instant on the common timeline. Kept because `wall` becomes inaccurate if this
    /// machine's clock is steered towards the timeline afterwards.
    at: Option<Instant<TimelineTime>>,
    wall: Instant<Wall>,
    from: Instant<Virtual>,
    dilation: Dilation,
    /// Virtual instant at which the clocks stop by themselves.
    until: Instant<Virtual>,
}

/// State of a pause in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// True if this machine requested the pause, or would have done so.
    asked: bool,
    /// Virtual time that the clock showed when the limit at which it must stop was set.
    closed: Option<Instant<Virtual>>,
    /// Deviation of the clock from the agreed line, and the error bound of the comparison.
    deviation: Option<(Duration, Duration)>,
    timeline_error: Option<Duration>,
    at: Option<Instant<Virtual>>,
    stood: Option<Instant<Wall>>,
}

impl AgreedSession {
    /// Creates the adapter. `hear` receives each pause when it ends; `timeline` is the timeline
    /// that the machines share.
    pub fn new(
        session: Arc<Session>,
        timeline: Option<Arc<dyn CommonTimeline>>,
        hear: Option<PauseCallback>,
    ) -> Self {
        Self {
            session,
            timeline,
            state: Mutex::new(State {
                hear,
                pauses: 0,
                began: None,
                pause: Pause::default(),
            }),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }

    /// Returns the deviation of this machine's clock from the agreed line, and the error bound of
    /// the comparison.
    fn deviation(&self, began: Began) -> (Duration, Duration) {
        let wall = match (&self.timeline, began.at) {
            (Some(timeline), Some(at)) => timeline.wall_at(at),
            _ => began.wall,
        };
        let line = ClockMap::new(wall, began.from, began.dilation.rate());
        let before = wall_now();
        let shown = self.session.clock().now();
        let width = wall_now() - before;
        let half = Duration::from_ns(width.as_ns() / 2 + 1);
        // The comparison is uncertain by the virtual time that passes in half of the width.
        let shown_error = of_virtual_time(half, began.dilation.rate());
        let agreed = line.at(before + half).min(began.until);
        (shown - agreed, shown_error)
    }
}

impl State {
    /// Passes the record of a pause that has ended to the callback, and notes how the clocks run
    /// from now on.
    fn tell(&mut self, began: Began, late: Duration) {
        let before = self.began.replace(began);
        let pause = std::mem::take(&mut self.pause);
        let Some(at) = pause.at else { return };
        let number = self.pauses;
        self.pauses += 1;
        let Some(hear) = &mut self.hear else { return };
        hear(&AgreedPause {
            number,
            at,
            asked: pause.asked,
            ahead: pause.closed.map(|closed| at - closed),
            deviation: pause.deviation,
            timeline_error: pause.timeline_error,
            stood: pause.stood,
            resumed: began.wall,
            late,
            dilation: began.dilation,
            changed: before.is_some_and(|before| before.dilation != began.dilation),
        });
    }
}

fn refused(error: impl ToString) -> TestbedError {
    TestbedError::new(error.to_string())
}

impl AgreedTestbed for AgreedSession {
    fn hold_alone(&self) -> Result<(), TestbedError> {
        self.with(|state| state.pause.asked = true);
        self.session.freeze_alone().map_err(refused)
    }

    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError> {
        let began = self.with(|state| state.began);
        let deviation = began.map(|began| self.deviation(began));
        let timeline = self.timeline.as_ref();
        let timeline_error = timeline.map(|timeline| timeline.read().uncertainty);
        let closed = self.session.clock().now();
        let bound = self.session.clock().bound_at(lead, at_least);
        self.with(|state| {
            state.pause.closed = Some(closed);
            state.pause.deviation = deviation;
            state.pause.timeline_error = timeline_error;
        });
        Ok(bound)
    }

    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError> {
        self.session.stand_at(at).map_err(refused)?;
        self.with(|state| {
            state.pause.at = Some(at);
            state.pause.stood = Some(wall_now());
        });
        Ok(())
    }

    fn resume(&self, resumption: LocalResumption) -> Result<(), TestbedError> {
        let LocalResumption {
            from,
            at,
            dilation,
            until,
        } = resumption;
        let began = Began {
            at: self.timeline.as_ref().map(|its| its.timeline_at(at)),
            wall: at,
            from,
            dilation,
            until,
        };
        let late = self.session.resume_as_of(from, at, dilation, until);
        let late = late.map_err(refused)?;
        self.with(|state| state.tell(began, late));
        Ok(())
    }

    fn wait_for(&self, at: Instant<Virtual>, give_up: &dyn Fn() -> bool) -> bool {
        let clock = self.session.clock();
        clock.wait_until_in_the_background(at, give_up)
    }

    fn wake(&self) {
        self.session.clock().wake();
    }

    fn halt(&self) {
        // If the session cannot be paused now, its owner ends the processes.
        let _ = self.session.pause();
    }
}

/// Changes the dilation of a session and of all sessions that share its pause wire, at one virtual
/// instant.
pub(crate) fn dilate_all(session: &Session, bus: &Bus, factor: f64) -> Result<(), HoldError> {
    let dilation = session.clock().check_dilation(factor)?;
    let reason = format!("timeloom dilate {factor}");
    bus.dilate("user", &reason, dilation)
        .map_err(HoldError::other)
}

/// Returns the virtual time that a clock of this rate shows in `apart` of wall time, rounded up.
pub(crate) fn of_virtual_time(apart: Duration, rate: Rate) -> Duration {
    let apart = rate.apply(apart.as_ns().max(0).unsigned_abs());
    match i64::try_from(apart) {
        Ok(ns) if rate == Rate::ONE || ns == 0 => Duration::from_ns(ns),
        Ok(ns) => Duration::from_ns(ns.saturating_add(1)),
        Err(_) => Duration::MAX,
    }
}
