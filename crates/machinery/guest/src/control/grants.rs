//! Grants of time to a session. At most one client, the granter, may grant time.
//!
//! A session in time mode `stepped` stands until its granter grants it an instant, and again when
//! it has reached the instant. The client with the granter's connection to the control socket is
//! the granter. When that connection closes, the session stays where it is and reports this. If no
//! other granter connects in time, the session is ended. It never continues by itself.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::Clock;
use crate::control::error::SeatError;
use crate::control::granter::has_hung_up;
use crate::control::why::Cause;

/// State of the granter of a session, and totals of its grants.
pub struct Grants {
    clock: Arc<Clock>,
    /// Wall time without a granter after which the session is ended.
    patience: StdDuration,
    /// Virtual time at which the session ends; no grant goes further. `None` if there is no such
    /// limit.
    end: Option<Instant<Virtual>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    seated: Option<Seated>,
    /// Description of the last granter that has disconnected.
    left: Option<String>,
    /// Start of the present period without a granter.
    alone_since: StdInstant,
    /// True if the user has been warned that there is no granter.
    warned: bool,
    /// True if the granter has been informed of the session's end.
    knows_the_end: bool,
    /// True while a request of the granter is being answered.
    answering: bool,
    /// Start of the wait for the next grant, or of the grant in progress.
    waiting_since: StdInstant,
    /// True while a grant is in progress.
    is_granting: bool,
    tally: GrantTotals,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Preparing,
    Open,
    /// The session has ended, as planned or for another reason.
    Over {
        as_planned: bool,
    },
}

struct Seated {
    /// Description of the granter's process.
    process: String,
    connection: UnixStream,
}

/// Totals of the grants so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrantTotals {
    /// Number of grants that have begun.
    pub grants: u64,
    /// Wall time of all grants.
    pub ran: Duration,
    /// Wall time between the grants, and before the first.
    pub waited: Duration,
}

/// Result of [`Grants::look`]: action for the session's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GranterCheck {
    /// There is a granter, or there is still time for one to connect.
    Fine,
    /// There is no granter; contains a warning for the user.
    Alone(String),
    /// No granter connected in time, so the session must be ended; contains the reason.
    GaveUp(String),
}

/// Role of the granter. It is released when this value is dropped.
pub(crate) struct Seat(Arc<Grants>);

/// Guard for a granter's request in progress: the end of the session waits until the answer is
/// sent.
pub(crate) struct Answering<'a>(&'a Grants);

impl Grants {
    /// Creates the state of a session with this clock. `end` is the end of the session, if it has
    /// one.
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
                is_granting: false,
                tally: GrantTotals::default(),
            }),
            changed: Condvar::new(),
        }
    }

    /// Allows grants from now on. A granter that connected earlier has been waiting for this.
    pub fn open(&self) {
        let mut state = self.lock();
        state.phase = Phase::Open;
        state.alone_since = StdInstant::now();
        state.waiting_since = state.alone_since;
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the granting of time. A grant in progress is answered first. If the end was planned and
    /// the granter does not know of it yet, `farewell` informs it. Then its connection is closed.
    pub(crate) fn close(&self, as_planned: bool, farewell: impl FnOnce(&mut UnixStream)) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Over { .. }) {
            state.phase = Phase::Over { as_planned };
        }
        drop(state);
        self.changed.notify_all();
        self.clock.wake();
        let limit = ANSWERED_WITHIN;
        let mut state = self.lock();
        self.changed
            .wait_while_for(&mut state, |state| state.answering, limit);
        let knows = state.knows_the_end;
        if let Some(seated) = &mut state.seated {
            if as_planned && !knows {
                // The granter may be busy and not read. The end must not wait for it.
                let _ = seated.connection.set_write_timeout(Some(FAREWELL_WITHIN));
                farewell(&mut seated.connection);
            }
            // The granter may have disconnected by itself.
            let _ = seated.connection.shutdown(Shutdown::Both);
        }
    }

    /// Checks whether there is a granter. To be called from time to time.
    pub fn look(&self) -> GranterCheck {
        let mut state = self.lock();
        if state.phase != Phase::Open || state.seated.is_some() {
            return GranterCheck::Fine;
        }
        let alone = state.alone_since.elapsed();
        let stands = self.clock.now() - Instant::ZERO;
        let granter = match &state.left {
            Some(left) => format!("{left}, which granted time last, has disconnected"),
            None => "no granter has connected".to_owned(),
        };
        if alone >= self.patience {
            return GranterCheck::GaveUp(format!(
                "{granter}; time stood at {stands}, and no granter connected for {}",
                Duration::from(self.patience)
            ));
        }
        if state.warned || alone < (self.patience / 2).min(WARN_AFTER) {
            return GranterCheck::Fine;
        }
        state.warned = true;
        GranterCheck::Alone(format!(
            "{granter}; time stands at {stands}, and the session ends unless a granter connects within {}",
            Duration::from(self.patience)
        ))
    }

    /// Returns the totals of the grants so far.
    pub fn tally(&self) -> GrantTotals {
        self.lock().tally
    }

    /// Returns the cause because of which the session stands, if it stands for its next grant.
    pub(crate) fn awaited(&self) -> Option<Cause> {
        let state = self.lock();
        let awaits = state.phase == Phase::Open && !state.is_granting;
        awaits.then(|| Cause::Grant {
            granter: state.seated.as_ref().map(|seated| seated.process.clone()),
            waited_ns: Duration::from(state.waiting_since.elapsed()).as_ns(),
        })
    }

    /// Returns a description of the present granter, or of the last one.
    pub fn granter(&self) -> String {
        let state = self.lock();
        let seated = state.seated.as_ref().map(|seated| &seated.process);
        let granter = seated.or(state.left.as_ref());
        granter.map_or_else(|| "no granter yet".to_owned(), String::clone)
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

    /// Returns the instant until which the session runs for a grant until `target`: at most its
    /// end.
    pub(crate) fn within_the_end(&self, target: Instant<Virtual>) -> Instant<Virtual> {
        self.end.map_or(target, |end| target.min(end))
    }

    /// Returns true if the session has ended when its clock shows `at`.
    pub(crate) fn ends_at(&self, at: Instant<Virtual>) -> bool {
        self.end.is_some_and(|end| at >= end)
    }

    /// Makes a client the granter. `process` describes it. If the present granter has disconnected,
    /// waits for a moment until its last request is answered, so that one command can follow another
    /// at once.
    ///
    /// # Errors
    /// Fails if there is another granter, if its last grant goes on, if nothing will be granted any
    /// more, or if the client itself has disconnected.
    pub(crate) fn seat(
        self: &Arc<Self>,
        process: String,
        connection: UnixStream,
    ) -> Result<Seat, SeatError> {
        let until = StdInstant::now() + LEAVES_WITHIN;
        let mut state = self.lock();
        loop {
            if let Phase::Over { .. } = state.phase {
                return Err(SeatError::Ended);
            }
            match &state.seated {
                None => break,
                Some(_) if has_hung_up(&connection) => return Err(SeatError::Left),
                Some(other) if has_hung_up(&other.connection) && StdInstant::now() < until => {}
                Some(other) => {
                    return Err(SeatError::Taken {
                        by: other.process.clone(),
                    });
                }
            }
            self.changed.wait_for(&mut state, LEAVES_EVERY);
        }
        state.seated = Some(Seated {
            process,
            connection,
        });
        Ok(Seat(Arc::clone(self)))
    }

    /// Waits until time may be granted, for at most `limit` of wall time.
    pub(crate) fn wait_until_open(&self, limit: StdDuration) {
        let is_preparing = |state: &mut State| state.phase == Phase::Preparing;
        self.changed
            .wait_while_for(&mut self.lock(), is_preparing, limit);
    }

    /// Records that the granter was informed of the session's end.
    pub(crate) fn note_that_the_end_is_known(&self) {
        self.lock().knows_the_end = true;
    }

    /// Records that a grant begins (if `begins`), or has ended.
    pub(crate) fn count(&self, begins: bool) {
        let mut state = self.lock();
        let now = StdInstant::now();
        let since = Duration::from(now - state.waiting_since);
        state.waiting_since = now;
        state.is_granting = begins;
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
        // A thread that panicked with the lock held leaves consistent values: every change consists
        // of a few plain stores.
        self.state.lock()
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
        state.left = state.seated.take().map(|seated| seated.process);
        state.alone_since = StdInstant::now();
        state.warned = false;
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Maximum time for which a client waits for a granter that has disconnected.
const LEAVES_WITHIN: StdDuration = StdDuration::from_secs(5);

/// Interval at which both connections are checked meanwhile.
const LEAVES_EVERY: StdDuration = StdDuration::from_millis(200);

/// Maximum time for which the end of a session waits for the answer to its last grant.
const ANSWERED_WITHIN: StdDuration = StdDuration::from_secs(5);

/// Maximum time for which the end of a session waits for a granter that does not read.
const FAREWELL_WITHIN: StdDuration = StdDuration::from_secs(1);

/// Wall time without a granter after which the user is warned.
const WARN_AFTER: StdDuration = StdDuration::from_secs(5);
