//! Whose word moves a stepped session: one granter at a time.
//!
//! A session in time mode `stepped` stands until somebody grants it an instant,
//! and again when it got there. The granter's connection to the control socket is
//! its lifeline: when it closes, the session stays where it is, says so, and is
//! given up when nobody else comes in time. It never goes on by itself.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::Clock;
use crate::control::error::SeatError;

/// Who may grant a session time, and what was granted.
pub struct Grants {
    clock: Arc<Clock>,
    /// How long it stands with nobody there before it is given up.
    patience: StdDuration,
    /// Where the session ends; no grant goes further.
    end: Option<Instant<Virtual>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    seated: Option<Seated>,
    /// The last to go.
    left: Option<String>,
    /// Since when it stands with nobody there.
    alone_since: StdInstant,
    /// The user has been warned that nobody is there.
    warned: bool,
    /// The granter has been told that the session has ended.
    knows_the_end: bool,
    /// A request of the granter is being answered.
    answering: bool,
    /// Since when it waits for the next grant.
    waiting_since: StdInstant,
    tally: Tally,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Preparing,
    Open,
    /// As planned, or not.
    Over {
        as_planned: bool,
    },
}

struct Seated {
    who: String,
    connection: UnixStream,
}

/// What was granted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many grants were begun.
    pub grants: u64,
    /// Wall time of all grants.
    pub ran: Duration,
    /// Wall time between them, and before the first.
    pub waited: Duration,
}

/// What [`Grants::look`] has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookout {
    /// Somebody grants, or has time left to come.
    Fine,
    /// To be told to the user.
    Alone(String),
    /// Nobody came in time; the session is to be ended.
    GaveUp(String),
}

/// Being the granter; given up when dropped.
pub(crate) struct Seat(Arc<Grants>);

/// A request of the granter's under way: the end of the session waits for its
/// answer to be sent.
pub(crate) struct Answering<'a>(&'a Grants);

impl Grants {
    /// For a session with this clock that ends at `end`, if there is one.
    pub fn new(clock: Arc<Clock>, patience: StdDuration, end: Option<Instant<Virtual>>) -> Self {
        let now = StdInstant::now();
        Self {
            clock,
            patience,
            end,
            state: Mutex::new(State {
                phase: Phase::Preparing,
                seated: None,
                left: None,
                alone_since: now,
                warned: false,
                knows_the_end: false,
                answering: false,
                waiting_since: now,
                tally: Tally::default(),
            }),
            changed: Condvar::new(),
        }
    }

    /// From now on time may be granted. Who came earlier has been waiting.
    pub fn open(&self) {
        let mut state = self.lock();
        state.phase = Phase::Open;
        state.alone_since = StdInstant::now();
        state.waiting_since = state.alone_since;
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing is granted any more. A grant under way is answered first; a granter
    /// who has not heard of a planned end yet is told by `farewell`, and its
    /// connection is closed.
    pub(crate) fn close(&self, as_planned: bool, farewell: impl FnOnce(&mut UnixStream)) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Over { .. }) {
            state.phase = Phase::Over { as_planned };
        }
        drop(state);
        self.changed.notify_all();
        self.clock.wake();
        let limit = ANSWERED_WITHIN;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(self.lock(), limit, |state| state.answering)
            .unwrap_or_else(PoisonError::into_inner);
        let knows = state.knows_the_end;
        if let Some(seated) = &mut state.seated {
            if as_planned && !knows {
                // It may be at work and not read; then the end must not wait for it.
                let _ = seated.connection.set_write_timeout(Some(FAREWELL_WITHIN));
                farewell(&mut seated.connection);
            }
            // It may have gone by itself.
            let _ = seated.connection.shutdown(Shutdown::Both);
        }
    }

    /// Whether somebody is there; to be called now and then.
    pub fn look(&self) -> Lookout {
        let mut state = self.lock();
        if state.phase != Phase::Open || state.seated.is_some() {
            return Lookout::Fine;
        }
        let alone = state.alone_since.elapsed();
        let stands = self.clock.now() - Instant::ZERO;
        let who = match &state.left {
            Some(left) => format!("{left}, which granted time last, has left"),
            None => "nobody has come to grant time".to_owned(),
        };
        if alone >= self.patience {
            return Lookout::GaveUp(format!(
                "{who}; time stood at {stands}, and for {} nobody came to move it on",
                Duration::from(self.patience)
            ));
        }
        if state.warned || alone < (self.patience / 2).min(WARN_AFTER) {
            return Lookout::Fine;
        }
        state.warned = true;
        Lookout::Alone(format!(
            "{who}; time stands at {stands}, and the session ends unless somebody grants it time within {}",
            Duration::from(self.patience)
        ))
    }

    /// What was granted so far.
    pub fn tally(&self) -> Tally {
        self.lock().tally
    }

    /// Who grants, or granted last.
    pub fn who(&self) -> String {
        let state = self.lock();
        let seated = state.seated.as_ref().map(|seated| &seated.who);
        let who = seated.or(state.left.as_ref());
        who.map_or_else(|| "nobody yet".to_owned(), String::clone)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.lock().phase, Phase::Over { .. })
    }

    pub(crate) fn is_over_as_planned(&self) -> bool {
        self.lock().phase == Phase::Over { as_planned: true }
    }

    pub(crate) fn is_preparing(&self) -> bool {
        self.lock().phase == Phase::Preparing
    }

    /// The instant to go to for a grant until `target`.
    pub(crate) fn within_the_end(&self, target: Instant<Virtual>) -> Instant<Virtual> {
        self.end.map_or(target, |end| target.min(end))
    }

    /// Whether the session ends at this instant.
    pub(crate) fn ends_at(&self, at: Instant<Virtual>) -> bool {
        self.end.is_some_and(|end| at >= end)
    }

    /// Makes `who` the granter.
    ///
    /// # Errors
    /// Somebody else is, or nothing will be granted any more.
    pub(crate) fn seat(
        self: &Arc<Self>,
        who: String,
        connection: UnixStream,
    ) -> Result<Seat, SeatError> {
        let mut state = self.lock();
        if let Phase::Over { .. } = state.phase {
            return Err(SeatError::Ended);
        }
        if let Some(other) = &state.seated {
            return Err(SeatError::Taken {
                by: other.who.clone(),
            });
        }
        state.seated = Some(Seated { who, connection });
        Ok(Seat(Arc::clone(self)))
    }

    /// Waits, for at most `limit`, until time may be granted.
    pub(crate) fn wait_until_open(&self, limit: StdDuration) {
        let _ = self
            .changed
            .wait_timeout_while(self.lock(), limit, |state| state.phase == Phase::Preparing)
            .unwrap_or_else(PoisonError::into_inner);
    }

    /// The granter is told that the session has ended.
    pub(crate) fn note_that_the_end_is_known(&self) {
        self.lock().knows_the_end = true;
    }

    /// A grant begins, or has ended.
    pub(crate) fn count(&self, begins: bool) {
        let mut state = self.lock();
        let now = StdInstant::now();
        let since = Duration::from(now - state.waiting_since);
        state.waiting_since = now;
        if begins {
            state.tally.grants += 1;
            state.tally.waited += since;
        } else {
            state.tally.ran += since;
        }
    }

    pub(crate) fn answering(&self) -> Answering<'_> {
        self.lock().answering = true;
        Answering(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is a few plain stores.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.lock().answering = false;
        self.0.changed.notify_all();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.left = state.seated.take().map(|seated| seated.who);
        state.alone_since = StdInstant::now();
        state.warned = false;
    }
}

/// How long the end of a session waits for the answer to its last grant.
const ANSWERED_WITHIN: StdDuration = StdDuration::from_secs(5);

/// How long it takes to tell a granter of the end that does not listen.
const FAREWELL_WITHIN: StdDuration = StdDuration::from_secs(1);

/// How long nobody need be there before the user hears of it.
const WARN_AFTER: StdDuration = StdDuration::from_secs(5);
