//! A session on one of several machines: its pauses are agreed on with the others.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

pub use crate::placed::{
    AgentError, Described, Description, KeyFileError, Secret, Serve, SpreadError, WhichTimeline,
    describe, read_key,
};
pub use timeloom_accord::{Mode, OnSilence, Settings};
use timeloom_bus::{AgreedTestbed, Hold, TestbedError};
pub use timeloom_bus::{
    Alone, Bound, Bus, CommonTimeline, GpioPins, Halted, Key, LineSettings, MachineTimeline,
    MachineWire, Peer, PinNames, SystemTimeline, Udp, Wired, prove,
};
use timeloom_clock::Timeline;
use timeloom_guest::{Controlled, HoldError, Session};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

/// What an agreed pause was like on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedPause {
    /// Counts them. Number 0 is the stand before the start.
    pub number: u64,
    /// Where all stood.
    pub at: Instant<Virtual>,
    /// Whether this machine asked for it, or meant to.
    pub asked: bool,
    /// How far that was ahead of what the clock showed when it got its ceiling.
    pub ahead: Option<Duration>,
    /// How far the clock was off the agreed line just before, and by how much that
    /// comparison may be wrong. The line is one of the common timeline, as this machine reads
    /// it then.
    pub deviation: Option<(Duration, Duration)>,
    /// By how much that reading may be wrong, in either direction.
    pub timeline_error: Option<Duration>,
    /// From when on all stood here.
    pub stood: Option<Instant<Wall>>,
    /// When all went on.
    pub resumed: Instant<Wall>,
    /// How much later the clock did so here.
    pub late: Duration,
}

/// Hears of each pause, when it ends.
pub type HearPause = Box<dyn FnMut(&AgreedPause) + Send>;

/// Where the clock of a machine stood in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Where all did, as was agreed.
    Agreed,
    /// Where it was when it saw the edge of the line; the others, elsewhere.
    OwnEdge,
}

/// Writes one JSON object for each pause, one to a line.
pub fn json_lines(mut log: Box<dyn Write + Send>, anchor: Anchor) -> HearPause {
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
        });
        // A log that is full must not end a run; what is missing is seen by its number.
        let _ = writeln!(log, "{line}").and_then(|()| log.flush());
    })
}

/// How agents agree whose pauses lie so far ahead, and who may be silent for so long.
pub fn settings(look_ahead: Option<Duration>, patience: Duration) -> Settings {
    let beat = Duration::from_ns(patience.as_ns() / 8);
    Settings {
        mode: look_ahead.map_or(Mode::Immediate, Mode::Scheduled),
        patience,
        beat: beat.max(Duration::from_ms(1)),
        ..Settings::default()
    }
}

/// The session as the agreement sees it; keeps what its pauses were like.
pub struct AgreedSession {
    session: Arc<Session>,
    /// What the machines share; none where there is only a wire.
    timeline: Option<Arc<dyn CommonTimeline>>,
    state: Mutex<State>,
}

struct State {
    hear: Option<HearPause>,
    pauses: u64,
    /// Where all clocks went on last.
    began: Option<Began>,
    pause: Pause,
}

/// Since when all clocks have gone on, and from where.
#[derive(Clone, Copy, Debug)]
struct Began {
    /// By the common timeline. This machine's clock may be steered after it meanwhile, so that
    /// it was at another instant of that one than was thought.
    at: Option<Instant<Timeline>>,
    wall: Instant<Wall>,
    from: Instant<Virtual>,
}

/// One pause, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// This machine asked for it, or would have.
    asked: bool,
    /// What the clock showed when it was closed.
    closed: Option<Instant<Virtual>>,
    /// How far that was off the line, and how wrong the comparison may be.
    deviation: Option<(Duration, Duration)>,
    timeline_error: Option<Duration>,
    at: Option<Instant<Virtual>>,
    stood: Option<Instant<Wall>>,
}

impl AgreedSession {
    /// Tells `hear` of each pause, when it ends. `timeline` is what the machines share.
    pub fn new(
        session: Arc<Session>,
        timeline: Option<Arc<dyn CommonTimeline>>,
        hear: Option<HearPause>,
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
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the clock shows, beside what all clocks should.
    fn deviation(&self, began: Began) -> (Duration, Duration) {
        let wall = match (&self.timeline, began.at) {
            (Some(timeline), Some(at)) => timeline.wall_at(at),
            _ => began.wall,
        };
        let line = ClockMap::new(wall, began.from, Rate::ONE);
        let before = wall_now();
        let shown = self.session.clock().now();
        let width = wall_now() - before;
        let half = Duration::from_ns(width.as_ns() / 2 + 1);
        (shown - line.at(before + half), half)
    }
}

impl State {
    fn tell(&mut self, resumed: Instant<Wall>, late: Duration) {
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
            resumed,
            late,
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

    fn resume(&self, from: Instant<Virtual>, at: Instant<Wall>) -> Result<(), TestbedError> {
        let began = self.timeline.as_ref().map(|its| its.timeline_at(at));
        let late = self.session.resume_as_of(from, at).map_err(refused)?;
        self.with(|state| {
            state.began = Some(Began {
                at: began,
                wall: at,
                from,
            });
            state.tell(at, late);
        });
        Ok(())
    }

    fn halt(&self) {
        // What cannot be stopped now is ended by whoever ends the session.
        let _ = self.session.pause();
    }
}

/// The session under `timeloom pause`, `resume` and `hold`: each is one more that holds
/// the line between the machines.
pub struct AgreedControl {
    session: Arc<Session>,
    bus: Bus,
    by_hand: Mutex<Option<Hold>>,
}

impl AgreedControl {
    /// Holds are asked of `bus`.
    pub fn new(session: Arc<Session>, bus: Bus) -> Self {
        Self {
            session,
            bus,
            by_hand: Mutex::new(None),
        }
    }

    fn by_hand<T>(&self, change: impl FnOnce(&mut Option<Hold>) -> T) -> T {
        change(&mut self.by_hand.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Controlled for AgreedControl {
    fn pause(&self) -> Result<(), HoldError> {
        if self.is_held() {
            return Ok(());
        }
        let hold = self.bus.hold("user", "timeloom pause");
        let hold = hold.map_err(HoldError::other)?;
        self.by_hand(|by_hand| by_hand.replace(hold));
        Ok(())
    }

    fn resume(&self) -> Result<(), HoldError> {
        match self.by_hand(Option::take) {
            Some(hold) => drop(hold),
            None => return Err(HoldError::other("this machine was not paused by hand")),
        }
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.by_hand(|by_hand| by_hand.is_some())
    }

    fn hold(&self, requester: &str, reason: &str) -> Result<Box<dyn Send>, HoldError> {
        let hold = self.bus.hold(requester, reason);
        Ok(Box::new(hold.map_err(HoldError::other)?))
    }

    fn is_agreed(&self) -> bool {
        true
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError> {
        match on {
            true => Err(HoldError::other(
                "time does not skip where pauses are agreed on with other machines",
            )),
            false => Ok(()),
        }
    }

    fn session(&self) -> &Session {
        &self.session
    }
}
