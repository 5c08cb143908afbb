//! The session's clock: counter → wall → virtual, published in the clock page.
//!
//! The clock is composed of two maps. The first, counter → wall, is *calibrated*: it follows the
//! machine's CLOCK_MONOTONIC and is steered by rate alone, so that it never jumps. The second, wall
//! → virtual, is *commanded*: a pause is rate 0, a dilation by f is rate 1/f. `T_virtual = Σ
//! (running wall time) / f`; paused time never counts. (This is the paper's equation in section
//! 2.1; its Algorithm 1 divides the paused time by f as well, which makes no sense for a stopped
//! clock.)
//!
//! Virtual time belongs to the session and serves as true time. Two more maps follow for each host
//! ([`hosts`]). The first leads from virtual time to the host's own time, since hosts can be held
//! and dilated one by one. The second leads from the host's own time to the host's clock, which its
//! guests see.

mod agreed;
mod calibration;
mod card;
mod cards;
mod file_dates;
mod history;
mod host;
mod host_control;
mod host_instant;
mod host_state;
mod hosts;
mod options;
mod publish;
mod raw_history;
mod start;
mod stop;
mod true_time;
mod waiting;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use timeloom_abi::{CounterKind, PageMap};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Dilation, Duration, Instant, Rate, Utc, Virtual, Wall};

use crate::error::GuestError;
use crate::linux::memory::PageMapping;
pub(crate) use calibration::Counter;
use calibration::{Calibration, TscLine};
pub(crate) use card::Card;
pub use card::{CardOptions, FrameStamps, NotYet};
pub use cards::CardReading;
use file_dates::FileDates;
use history::History;
pub use history::Reckoning;
pub use host::{ErrorEstimate, Host, HostOptions, HostReading};
use host_control::HostListener;
pub use host_control::{HostChange, HostTimeState};
pub(crate) use host_instant::{HostDeadline, HostInstant};
use host_state::HostState;
pub use options::{ClockOptions, Compute, FileTimes, ProcFiles, Tsc};
use publish::compose;
use start::{Offsets, dilation};
pub(crate) use stop::Stop;
pub use true_time::TrueTime;
use waiting::Awaited;
pub use waiting::Mark;

/// Kind of a change of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The clock was stopped.
    Pause,
    /// The clock was resumed.
    Resume,
    /// The dilation was changed.
    Dilate,
    /// The clock skipped ahead, because no event would have happened in between.
    Skip,
}

/// Virtual clock of a session, with the pages that publish it. All methods may be called from any
/// thread.
pub struct Clock {
    page: Arc<PageMapping<Virtual>>,
    counter: Counter,
    /// Reason why the counter is unreliable. Set when the kernel stops keeping time with it.
    distrusted: OnceLock<String>,
    /// Random number of the session, by which a page identifies its session.
    number: u64,
    /// Time-stamp counter that guests see, if it is emulated; `None` if they see the machine's.
    tsc: Option<TscLine>,
    state: Mutex<State>,
    changed: Condvar,
    /// Notified only by [`Self::wake`]. Threads that need no other notification wait on it, so that
    /// a pause need not wake a thread that would only go back to sleep.
    woken: Condvar,
    /// Callbacks run after every change.
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Callbacks run after every change of the dilation.
    dilation_listeners: Mutex<Vec<DilationListener>>,
    /// Callbacks run after every change of a host's own time.
    host_listeners: Mutex<Vec<HostListener>>,
    /// Incremented when a program changes a host's clock, or when the rate of a host's own time
    /// changes.
    host_version: AtomicU64,
    /// Number of requested stops of the clock that were cancelled.
    stops: AtomicU64,
}

type DilationListener = Box<dyn Fn(f64) + Send + Sync>;

struct State {
    calibration: Calibration,
    /// Map wall → virtual that is in force.
    map: ClockMap<Wall, Virtual>,
    /// Map counter → virtual, as published for readers.
    published: PageMap<Virtual>,
    /// Instant at which the clock stops by itself: the earliest of `stop`, `bound` and `end`;
    /// [`Instant::FAR_FUTURE`] if there is none.
    ceiling: Instant<Virtual>,
    /// Instant at which the clock was requested to stop.
    stop: Option<Instant<Virtual>>,
    /// Instant for which a stop is reserved that was not requested yet.
    planned_stop: Option<Instant<Virtual>>,
    /// Upper bound while a pause is agreed on with other machines; [`Instant::FAR_FUTURE`] if there
    /// is none.
    bound: Instant<Virtual>,
    /// End of the clock, which it never passes; [`Instant::FAR_FUTURE`] if there is none.
    end: Instant<Virtual>,
    /// Virtual time per wall time while the clock runs, if computing takes time.
    rate: Rate,
    compute: Compute,
    /// Sum of the steps by which the clock advanced for programs that wait for processor time to
    /// pass.
    computed: Duration,
    dilation: f64,
    paused_since: Option<Instant<Wall>>,
    paused_total: Duration,
    started: Instant<Wall>,
    offsets: Offsets,
    history: History,
    /// Instants for which threads of this process wait, each with the number of the wait.
    awaited: Vec<(u64, Awaited)>,
    /// Instant announced by a component that follows the clock without waiting for it here.
    announced: Option<Instant<Virtual>>,
    waits: u64,
    hosts: Vec<HostState>,
    /// Conversion of file dates; present if programs see virtual dates of files.
    file_dates: Option<FileDates>,
}

impl State {
    /// Recomputes the ceiling after a change of `stop`, `bound` or `end`.
    fn set_ceiling(&mut self) {
        let stop = self.stop.unwrap_or(Instant::FAR_FUTURE);
        self.ceiling = stop.min(self.bound).min(self.end);
    }

    /// Returns the rate, virtual time per wall time, that applies while the clock is not paused.
    fn going(&self) -> Rate {
        match self.compute {
            Compute::Real => self.rate,
            Compute::None => Rate::STOPPED,
        }
    }

    /// Returns the rate, virtual time per wall time, from which a waiting thread computes how long
    /// it may sleep before it checks the clock again.
    fn waiting(&self) -> Rate {
        match self.compute {
            Compute::Real => self.rate,
            Compute::None => SLOWEST,
        }
    }

    /// Returns the map from the session's virtual time to true civil time (UTC).
    fn civil(&self) -> ClockMap<Virtual, Utc> {
        ClockMap::ahead_by(Duration::from_ns(self.offsets.realtime_ns))
    }
}

impl Clock {
    /// Returns a sentence that describes the degradation of the clock on this machine, or `None` if
    /// there is none.
    pub fn degraded_mode(&self) -> Option<&'static str> {
        match self.counter.kind() {
            CounterKind::Tsc => None,
            // The user has chosen this degradation, which is documented with the option.
            CounterKind::Monotonic if self.tsc.is_some() => None,
            CounterKind::Monotonic => Some(
                "The kernel does not trust the processor's counter here; clock reads make a system call and are slower.",
            ),
        }
    }

    /// Returns a sentence with the reason why the times that guests saw are unreliable, or `None`
    /// if they are reliable.
    pub fn distrusted(&self) -> Option<&str> {
        self.distrusted.get().map(String::as_str)
    }

    /// Returns true if guests see an emulated time-stamp counter.
    pub(crate) fn emulates_tsc(&self) -> bool {
        self.tsc.is_some()
    }

    /// Returns the virtual time now.
    pub fn now(&self) -> Instant<Virtual> {
        self.page.page().read(|| self.counter.ticks(), |_| ()).0
    }

    /// Returns the wall time now: the machine's CLOCK_MONOTONIC.
    pub fn wall(&self) -> Instant<Wall> {
        wall_now()
    }

    /// Stops the clock. Returns the instant at which the clock stands. Has no effect on a stopped
    /// clock.
    pub fn pause(&self) -> Instant<Virtual> {
        let mut state = self.lock();
        if state.paused_since.is_none() {
            let at = self.change(&mut state, ChangeKind::Pause, Rate::STOPPED);
            state.paused_since = Some(at);
        }
        state.map.out0
    }

    /// Resumes the clock from the instant at which it was stopped.
    pub fn resume(&self) {
        let mut state = self.lock();
        if let Some(since) = state.paused_since.take() {
            let rate = state.going();
            let at = self.change(&mut state, ChangeKind::Resume, rate);
            state.paused_total += at - since;
        }
    }

    /// Sets the number of wall seconds per virtual second from now on.
    ///
    /// # Errors
    /// Fails if `factor` is not within 0.000001 … 1000000, or if the clock would be faster than a
    /// page can show.
    pub fn dilate(&self, factor: f64) -> Result<(), GuestError> {
        let rate = self.check_dilation(factor)?.rate();
        let mut state = self.lock();
        state.rate = rate;
        state.dilation = factor;
        let in_force = if state.paused_since.is_some() {
            Rate::STOPPED
        } else {
            state.going()
        };
        self.change(&mut state, ChangeKind::Dilate, in_force);
        drop(state);
        let listeners = self.dilation_listeners.lock();
        listeners.iter().for_each(|listener| listener(factor));
        Ok(())
    }

    /// Returns the dilation by `factor`, if this clock can have it.
    ///
    /// # Errors
    /// Fails if `factor` is not within 0.000001 … 1000000, or if the clock would be faster than a
    /// page can show on this machine.
    pub fn check_dilation(&self, factor: f64) -> Result<Dilation, GuestError> {
        let dilation = dilation(factor)?;
        self.lock().calibration.check_pace(factor)?;
        Ok(dilation)
    }

    /// Registers `listener`. It is called with every new dilation while the session's programs are
    /// stopped, and must not dilate this clock.
    pub fn on_dilation(&self, listener: impl Fn(f64) + Send + Sync + 'static) {
        self.dilation_listeners.lock().push(Box::new(listener));
    }

    /// Returns the dilation: wall seconds per virtual second.
    pub fn dilation(&self) -> f64 {
        self.lock().dilation
    }

    /// Returns the mode that determines whether computing takes virtual time.
    pub fn compute(&self) -> Compute {
        self.lock().compute
    }

    /// Returns true while the clock is paused.
    pub fn is_paused(&self) -> bool {
        self.lock().paused_since.is_some()
    }

    /// Returns the total wall time during which the clock was stopped, up to now.
    pub fn paused_total(&self) -> Duration {
        let state = self.lock();
        match state.paused_since {
            Some(since) => state.paused_total + (wall_now() - since),
            None => state.paused_total,
        }
    }

    /// Returns the wall time since virtual time zero.
    pub fn wall_elapsed(&self) -> Duration {
        wall_now() - self.lock().started
    }

    /// Returns the wall instant of virtual time zero.
    pub fn started(&self) -> Instant<Wall> {
        self.lock().started
    }

    /// Returns the map from the session's virtual time to true civil time (UTC).
    pub fn civil(&self) -> ClockMap<Virtual, Utc> {
        self.lock().civil()
    }

    /// Returns the virtual time that the clock showed at a past wall instant. For instants before
    /// the last changes (some ten thousand), returns the time at the earliest change that is kept.
    pub fn at(&self, wall: Instant<Wall>) -> Instant<Virtual> {
        let state = self.lock();
        state.history.at(wall, state.ceiling)
    }

    /// Returns the totals of the clock's changes so far, all as of one instant.
    pub fn reckon(&self) -> Reckoning {
        self.lock().history.reckon(wall_now())
    }

    /// Returns the map in force from wall time to virtual time.
    pub fn map(&self) -> ClockMap<Wall, Virtual> {
        self.lock().map
    }

    /// Returns the map in force from wall time to virtual time, and the virtual time at which the
    /// clock stops by itself: [`Instant::FAR_FUTURE`] if there is none.
    pub fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        let state = self.lock();
        (state.map, state.ceiling)
    }

    /// Registers `listener`, which is called after every pause, resumption, change of the dilation,
    /// and skip. It must be quick and must not use this clock.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        let mut listeners = self.listeners.lock();
        listeners.push(Box::new(listener));
    }

    /// Advances a clock that is not paused to `to` at once, or to its ceiling if that is earlier.
    /// The clock continues from there. Does nothing if the clock has reached `to` already. The
    /// caller guarantees that no event would have happened in between.
    ///
    /// `interrupt` is called when guests already read the new time, but before any thread of this
    /// process is notified.
    pub(crate) fn skip_to(&self, to: Instant<Virtual>, interrupt: impl FnOnce()) {
        let mut state = self.lock();
        let to = to.min(state.ceiling);
        if state.paused_since.is_none() && self.now() < to {
            let rate = state.going();
            self.put_in_force(&mut state, ChangeKind::Skip, rate, to);
            interrupt();
            // A clock that moves only in this way needs to wake its waiting threads only at their
            // instants. Otherwise their timeouts have become too long.
            if rate != Rate::STOPPED || state.is_awaited_by(to) {
                self.changed.notify_all();
            }
            self.notify_listeners();
        }
    }

    /// Adds `step` to the processor time that computing programs see. For them no other processor
    /// time passes, since computing takes no virtual time.
    pub(crate) fn add_computed(&self, step: Duration) {
        let mut state = self.lock();
        state.computed += step;
        for host in &state.hosts {
            host.page().page().show_computed(state.computed);
        }
    }

    /// Notifies the threads of this process that wait for an instant.
    fn notify(&self) {
        self.changed.notify_all();
        self.notify_listeners();
    }

    fn notify_listeners(&self) {
        let listeners = self.listeners.lock();
        listeners.iter().for_each(|listener| listener());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock held has left consistent values: they are set at
        // once.
        self.state.lock()
    }
}

/// Rate assumed by waiting threads that are woken at their instant. By themselves they check the
/// clock only after 2²⁰ times the remaining virtual time.
const SLOWEST: Rate = Rate::from_bits(1 << 44);
