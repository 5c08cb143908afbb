//! Pause bus of one machine, and the holds that pause the testbed.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use timeloom_sys::wall_now;
use timeloom_time::{Dilation, Duration, Instant, Virtual, Wall};
use tracing::{debug, debug_span};

use crate::error::BusError;
use crate::level::{Level, Next};
use crate::record::{HoldRecorder, RecordKind, Sink};
use crate::testbed::{Testbed, TestbedError};
use crate::watchdog::{Holder, LongPause, ReportLongStand, Watchdog};
use crate::wire::{Cause, LocalWire, Wire};

/// Pause bus of one machine. Clones are handles of the same bus.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

/// Hold of the line: the testbed stays paused at least until this value is dropped. That may happen
/// in any thread and for any reason, even during a panic.
#[must_use = "dropping a hold lets the testbed go on"]
pub struct Hold {
    inner: Arc<Inner>,
    id: u64,
    instant: Instant<Virtual>,
    granted: Instant<Wall>,
    requester: String,
    reason: String,
}

/// Builder of a [`Bus`] with optional parts.
pub struct BusBuilder {
    testbed: Arc<dyn Testbed>,
    host: String,
    sink: Option<Box<dyn Sink>>,
    wire: Option<MakeWire>,
    watch: Option<(Duration, ReportLongStand)>,
    on_failure: Box<dyn Fn(BusError) + Send + Sync>,
}

type MakeWire = Box<dyn FnOnce(Arc<dyn Testbed>, Arc<HoldRecorder>) -> Arc<dyn Wire>>;

impl Bus {
    /// Creates a bus for this machine alone, without records.
    pub fn new(testbed: Arc<dyn Testbed>) -> Self {
        Self::builder(testbed).build()
    }

    /// Returns a builder for a bus with records, with a watchdog, or with a wire to other machines.
    pub fn builder(testbed: Arc<dyn Testbed>) -> BusBuilder {
        BusBuilder {
            testbed,
            host: "local".to_owned(),
            sink: None,
            wire: None,
            watch: None,
            on_failure: Box::new(|_| ()),
        }
    }

    /// Pauses the testbed and returns when it is paused.
    ///
    /// The call blocks only while the testbed is being paused or resumed, and never because another
    /// requester has a hold. Both texts are written to the records: `requester` names the
    /// requester, and `reason` states the purpose.
    ///
    /// # Errors
    /// Fails if the testbed could not be paused. The testbed then runs as if the hold had not been
    /// requested.
    pub fn hold(&self, requester: &str, reason: &str) -> Result<Hold, BusError> {
        let _span = debug_span!("hold", requester, reason).entered();
        let held = self.acquire(requester, reason);
        match &held {
            Ok(hold) => debug!(virtual_ns = hold.instant.as_ns(), "granted"),
            Err(error) => debug!(%error, "not granted"),
        }
        held
    }

    fn acquire(&self, requester: &str, reason: &str) -> Result<Hold, BusError> {
        let inner = &self.0;
        let asked = wall_now();
        if inner.free_running
            && let Some(present) = inner.testbed.free_running()
        {
            let mut state = inner.lock();
            return Ok(inner.grant(&mut state, present, asked, requester, reason));
        }
        let mut state = inner.lock();
        state.level.claim();
        loop {
            match state.level.next() {
                Next::Granted(frozen) => {
                    return Ok(inner.grant(&mut state, frozen, asked, requester, reason));
                }
                Next::Wait => {
                    inner.changed.wait(&mut state);
                }
                Next::Refused => {
                    state.level.withdraw();
                    return Err(BusError::Broken {
                        cause: state.broken.clone(),
                    });
                }
                Next::Raise => {
                    state.standing_since = Some(wall_now());
                    drop(state);
                    // If the wire panics, threads that wait must not wait forever.
                    let guard = BreakOnPanic {
                        inner,
                        edge: "pause",
                    };
                    let rose = inner.wire.raise(Cause { requester, reason });
                    std::mem::forget(guard);
                    state = inner.lock();
                    inner.changed.notify_all();
                    match rose {
                        Ok(frozen) => state.level.rose(frozen),
                        Err(source) => {
                            state.level.rise_failed();
                            state.standing_since = None;
                            return Err(BusError::Pause {
                                requester: requester.to_owned(),
                                source,
                            });
                        }
                    }
                }
            }
        }
    }

    /// Changes the dilation of everything on the line, in a pause: all resume from one virtual
    /// instant with the new dilation.
    ///
    /// The call returns when the pause has ended. If other holds prolong it by more than two
    /// seconds of wall time, or if this machine knows of other holds, the call returns before; the
    /// change is then in force when the pause ends. Both texts are as for [`Self::hold`].
    ///
    /// # Errors
    /// Fails if the wire cannot carry a dilation (nothing is paused then), if the testbed could not
    /// be paused, or if another machine requested a greater dilation in the same pause.
    pub fn dilate(
        &self,
        requester: &str,
        reason: &str,
        dilation: Dilation,
    ) -> Result<(), BusError> {
        let failed = |source| BusError::Dilate {
            requester: requester.to_owned(),
            source,
        };
        let Some(wire) = self.0.wire.agreed() else {
            return Err(failed(TestbedError::new(CARRIES_NONE)));
        };
        let hold = self.hold(requester, reason)?;
        let at = hold.instant();
        wire.dilate(dilation).map_err(failed)?;
        drop(hold);
        if !self.holders().is_empty() {
            return Ok(());
        }
        let agreed = wire.wait_for_end_of(at, END_WITHIN).map_err(failed)?;
        match agreed.filter(|agreed| *agreed != dilation) {
            Some(other) => Err(failed(TestbedError::new(format!(
                "another machine requested {} at the same instant, and the greatest counts",
                other.factor()
            )))),
            None => Ok(()),
        }
    }

    /// Requests that no clock on the line passes `at`, during `hold`, until the next request of the
    /// same `requester` or its [`Self::forget_stop`]. Of several requests the earliest counts. All
    /// clocks stop at `at`; the requester then gets its next hold at that instant.
    ///
    /// # Errors
    /// Fails if the clocks of the line do not stop by themselves, or if `at` is not after the hold.
    pub fn stop_at(
        &self,
        hold: &Hold,
        requester: &'static str,
        at: Instant<Virtual>,
    ) -> Result<(), BusError> {
        let failed = |source| BusError::Stop { source };
        let Some(wire) = self.0.wire.stopping() else {
            return Err(failed(TestbedError::new(CARRIES_NO_STOP)));
        };
        if at <= hold.instant() {
            let [at, now] = [at, hold.instant()].map(|it| it - Instant::ZERO);
            let text = format!("{at} is in the past: the testbed is paused at {now}");
            return Err(failed(TestbedError::new(text)));
        }
        let mut stops = self.0.stops.lock();
        let before = stops.insert(requester, at);
        let earliest = stops.values().min().copied().unwrap_or(at);
        // A stop of another requester at the present instant keeps its effect.
        let told = match earliest > hold.instant() {
            true => wire.stop_at(earliest),
            false => Ok(()),
        };
        if told.is_err() {
            match before {
                Some(before) => stops.insert(requester, before),
                None => stops.remove(requester),
            };
        }
        told.map_err(failed)
    }

    /// Withdraws the request of [`Self::stop_at`].
    pub fn forget_stop(&self, requester: &'static str) {
        let mut stops = self.0.stops.lock();
        if stops.remove(requester).is_some()
            && let Some(wire) = self.0.wire.stopping()
        {
            let next = stops.values().min().copied();
            wire.postpone_stop(next.unwrap_or(Instant::FAR_FUTURE));
        }
    }

    /// Returns the requesters that have a hold now, with the times of their grants.
    pub fn holders(&self) -> Vec<Holder> {
        self.0.holders(&self.0.lock())
    }
}

impl Hold {
    /// Returns the virtual instant of the pause, which is the same for all holds that overlap. With
    /// a free-running testbed it is the instant of the request.
    pub fn instant(&self) -> Instant<Virtual> {
        self.instant
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let inner = &*self.inner;
        let _span = debug_span!(
            "release",
            requester = self.requester,
            reason = self.reason,
            virtual_ns = self.instant.as_ns()
        )
        .entered();
        let mut state = inner.lock();
        let now = wall_now();
        state.holders.remove(&self.id);
        inner.recorder.write(
            RecordKind::Release,
            self.instant,
            now,
            now - self.granted,
            &self.requester,
            &self.reason,
        );
        if inner.free_running || !state.level.release() {
            return;
        }
        drop(state);
        let guard = BreakOnPanic {
            inner,
            edge: "resume",
        };
        let cause = Cause {
            requester: &self.requester,
            reason: &self.reason,
        };
        let fell = inner.wire.lower(cause, self.instant);
        std::mem::forget(guard);
        match fell {
            Ok(()) => {
                let mut state = inner.lock();
                state.level.fell();
                state.standing_since = None;
                inner.changed.notify_all();
            }
            Err(error) => inner.broke(format!("the testbed could not be resumed: {error}")),
        }
    }
}

impl BusBuilder {
    /// Sets the name of this machine in the records; the default is `local`.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = host.into();
        self
    }

    /// Sets the sink that receives the records.
    pub fn records(mut self, sink: impl Sink + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Sets a wire other than [`LocalWire`]. `wire` creates it from this machine's testbed and from
    /// the recorder of its edges. It is not used with a free-running testbed.
    pub fn wire(
        mut self,
        make: impl FnOnce(Arc<dyn Testbed>, Arc<HoldRecorder>) -> Arc<dyn Wire> + 'static,
    ) -> Self {
        self.wire = Some(Box::new(make));
        self
    }

    /// Sets a watchdog. It calls `report`, on a thread of its own, when the testbed has been paused
    /// for `limit` of wall time without a break, and again after every further `limit`. Overlapping
    /// holds may legally pause the testbed forever; the report names the holders. The pause is
    /// detected at most a quarter of the limit late.
    pub fn watch(mut self, limit: Duration, report: impl Fn(LongPause) + Send + 'static) -> Self {
        self.watch = Some((limit, Box::new(report)));
        self
    }

    /// Sets the function that is called when a release could not resume the testbed. A hold
    /// ends when it is dropped, and dropping cannot return an error.
    pub fn on_failure(mut self, report: impl Fn(BusError) + Send + Sync + 'static) -> Self {
        self.on_failure = Box::new(report);
        self
    }

    /// Builds the bus. Its line is low.
    pub fn build(self) -> Bus {
        let recorder = Arc::new(HoldRecorder::new(self.host, self.sink));
        let wire = match self.wire {
            Some(make) => make(self.testbed.clone(), recorder.clone()),
            None => Arc::new(LocalWire::new(self.testbed.clone(), recorder.clone())),
        };
        let inner = Arc::new_cyclic(|weak| Inner {
            state: Mutex::new(State {
                level: Level::new(),
                holders: BTreeMap::new(),
                next_id: 0,
                standing_since: None,
                broken: String::new(),
            }),
            stops: Mutex::default(),
            changed: Condvar::new(),
            free_running: self.testbed.free_running().is_some(),
            testbed: self.testbed,
            wire,
            recorder,
            on_failure: self.on_failure,
            _watchdog: self
                .watch
                .map(|(limit, report)| Watchdog::start(weak.clone(), limit, report)),
        });
        Bus(inner)
    }
}

/// State shared by all clones and holds.
pub(crate) struct Inner {
    state: Mutex<State>,
    /// Requested stops, by requester.
    stops: Mutex<BTreeMap<&'static str, Instant<Virtual>>>,
    /// Notified when the level changes its phase.
    changed: Condvar,
    testbed: Arc<dyn Testbed>,
    /// True if the testbed never pauses. The level and the wire are then unused.
    free_running: bool,
    wire: Arc<dyn Wire>,
    recorder: Arc<HoldRecorder>,
    on_failure: Box<dyn Fn(BusError) + Send + Sync>,
    _watchdog: Option<Watchdog>,
}

struct State {
    level: Level,
    /// Granted holds by identity. Identities grow, so they are in the order of the grants.
    holders: BTreeMap<u64, Holder>,
    next_id: u64,
    /// Wall time at which the present pause began; `None` while the testbed runs.
    standing_since: Option<Instant<Wall>>,
    broken: String,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever the lock is free, even after a panic (for example of a
        // sink), because every change of it is a few plain stores.
        self.state.lock()
    }

    fn grant(
        self: &Arc<Self>,
        state: &mut State,
        instant: Instant<Virtual>,
        asked: Instant<Wall>,
        requester: &str,
        reason: &str,
    ) -> Hold {
        let granted = wall_now();
        let id = state.next_id;
        state.next_id += 1;
        let (requester, reason) = (requester.to_owned(), reason.to_owned());
        self.recorder.write(
            RecordKind::Hold,
            instant,
            granted,
            granted - asked,
            &requester,
            &reason,
        );
        let holder = Holder {
            requester: requester.clone(),
            reason: reason.clone(),
            since: granted,
        };
        state.holders.insert(id, holder);
        Hold {
            inner: self.clone(),
            id,
            instant,
            granted,
            requester,
            reason,
        }
    }

    fn holders(&self, state: &State) -> Vec<Holder> {
        state.holders.values().cloned().collect()
    }

    /// Returns the beginning of the present pause and the holders, for the watchdog; `None` while
    /// the testbed runs.
    pub(crate) fn standing(&self) -> Option<(Instant<Wall>, Vec<Holder>)> {
        let state = self.lock();
        state
            .standing_since
            .map(|since| (since, self.holders(&state)))
    }

    fn broke(&self, cause: String) {
        let mut state = self.lock();
        state.level.broke();
        state.broken.clone_from(&cause);
        self.changed.notify_all();
        drop(state);
        (self.on_failure)(BusError::Broken { cause });
    }
}

/// Refusal of a change of the dilation by a line that only pauses.
const CARRIES_NONE: &str =
    "the line carries no dilation: agents agree on one over their network only (--listen)";

/// Refusal of a stop by a line that only pauses.
const CARRIES_NO_STOP: &str =
    "the line carries no instants: agents agree on one over their network only (--listen)";

/// Maximum wait for the end of a pause in which the dilation is changed.
const END_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Guard that marks the bus as broken if the wire or the testbed panics in the middle of an edge.
struct BreakOnPanic<'a> {
    inner: &'a Inner,
    edge: &'static str,
}

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        self.inner
            .broke(format!("the testbed panicked during a {}", self.edge));
    }
}
