//! The session's clock: counter → wall → virtual, published in the clock page.
//!
//! The clock is composed of two maps. The first, counter → wall, is *calibrated*: it follows the
//! machine's CLOCK_MONOTONIC and is steered by rate alone, so that it never jumps. The second, wall
//! → virtual, is *commanded*: pause is rate 0, dilation by f is rate 1/f. `T_virtual = Σ (running
//! wall time) / f`; paused time never counts (the paper's equation in section 2.1; its Algorithm 1
//! divides the paused time by f as well, which makes no sense for a stopped clock).
//!
//! Virtual time belongs to the session and serves as true time. Two more maps follow for each host:
//! from virtual time to the host's own time, since hosts can be held and dilated one by one, and
//! from that to the host's clock, which its guests see: [`hosts`].

mod agreed;
mod calibration;
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

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use timeloom_page::{CounterKind, PageMap};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Rate, Utc, Virtual, Wall};

use crate::error::GuestError;
use crate::linux::memory::PageMapping;
pub(crate) use calibration::Counter;
use calibration::{Calibration, TscLine};
use file_dates::FileDates;
use history::History;
pub use history::Reckoning;
pub use host::{Belief, Host, HostOptions, HostReading};
use host_control::HostListener;
pub use host_control::{HostChange, HostTime};
pub(crate) use host_instant::{HostDeadline, HostInstant};
use host_state::HostState;
pub use options::{ClockOptions, Compute, FileTimes, ProcFiles, Tsc};
use publish::compose;
use start::{Offsets, running_rate};
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
    /// The clock skipped ahead, because nothing would have happened in between.
    Skip,
}

/// A virtual clock with its page. All methods may be called from any thread.
pub struct Clock {
    page: Arc<PageMapping<Virtual>>,
    counter: Counter,
    /// Set once the kernel keeps time with another counter.
    distrusted: OnceLock<String>,
    /// Random number of the session, by which a page identifies its session.
    number: u64,
    /// Counter that guests see, if it is not the machine's.
    tsc: Option<TscLine>,
    state: Mutex<State>,
    changed: Condvar,
    /// Notified by [`Self::wake`] alone. Threads that need no other notification wait here, so that
    /// a pause need not wake a thread that only goes back to sleep.
    woken: Condvar,
    /// Callbacks run after every change.
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Callbacks run after every change of the dilation.
    dilation_listeners: Mutex<Vec<DilationListener>>,
    /// Callbacks run after every change of a host's own time.
    host_listeners: Mutex<Vec<HostListener>>,
    /// Incremented when a program changes a host's clock, or when a host's course changes.
    host_version: AtomicU64,
    /// Incremented when a requested stop of the clock is cancelled.
    stops: AtomicU64,
}

type DilationListener = Box<dyn Fn(f64) + Send + Sync>;

struct State {
    calibration: Calibration,
    /// Map wall → virtual in force now.
    map: ClockMap<Wall, Virtual>,
    /// Map counter → virtual as published for readers.
    published: PageMap<Virtual>,
    /// Instant at which the clock stops by itself: the earliest of the three below;
    /// [`Instant::FAR_FUTURE`] if none.
    ceiling: Instant<Virtual>,
    /// Requested stop.
    stop: Option<Instant<Virtual>>,
    /// Bound agreed on with other machines for a pause; [`Instant::FAR_FUTURE`] if none.
    bound: Instant<Virtual>,
    /// End of the clock, which it never passes; [`Instant::FAR_FUTURE`] if none.
    end: Instant<Virtual>,
    /// Rate while running, if computing takes time.
    rate: Rate,
    compute: Compute,
    /// Sum of the steps made for programs that wait for processor time to pass.
    computed: Duration,
    dilation: f64,
    paused_since: Option<Instant<Wall>>,
    paused_total: Duration,
    started: Instant<Wall>,
    offsets: Offsets,
    history: History,
    /// Instants awaited by threads of this process, each with a number.
    awaited: Vec<(u64, Awaited)>,
    /// Instant announced by a component that does not wait here.
    announced: Option<Instant<Virtual>>,
    waits: u64,
    hosts: Vec<HostState>,
    /// Present if programs see virtual dates of files.
    file_dates: Option<FileDates>,
}

impl State {
    /// Recomputes the ceiling after a change of the stop, the bound or the end.
    fn set_ceiling(&mut self) {
        let stop = self.stop.unwrap_or(Instant::FAR_FUTURE);
        self.ceiling = stop.min(self.bound).min(self.end);
    }

    /// Returns the rate while the clock is not paused.
    fn going(&self) -> Rate {
        match self.compute {
            Compute::Real => self.rate,
            Compute::None => Rate::STOPPED,
        }
    }

    /// Returns the rate, virtual per wall, from which waiting threads compute their longest wait
    /// until they check again.
    fn waiting(&self) -> Rate {
        match self.compute {
            Compute::Real => self.rate,
            Compute::None => SLOWEST,
        }
    }

    /// Returns the map from the session's time to true civil time.
    fn civil(&self) -> ClockMap<Virtual, Utc> {
        ClockMap::ahead_by(Duration::from_ns(self.offsets.realtime_ns))
    }
}

impl Clock {
    /// Returns, as a sentence, the degradation of the clock on this machine, if there is any.
    pub fn degraded_mode(&self) -> Option<&'static str> {
        match self.counter.kind() {
            CounterKind::Tsc => None,
            // Degraded by the user's choice, and documented there.
            CounterKind::Monotonic if self.tsc.is_some() => None,
            CounterKind::Monotonic => Some(
                "The kernel does not trust the processor's counter here; clock reads make a system call and are slower.",
            ),
        }
    }

    /// Returns, as a sentence, the reason why the times that guests saw are unreliable, if they
    /// are.
    pub fn distrusted(&self) -> Option<&str> {
        self.distrusted.get().map(String::as_str)
    }

    /// Returns true if guests see a virtual time-stamp counter.
    pub(crate) fn emulates_tsc(&self) -> bool {
        self.tsc.is_some()
    }

    /// Returns the virtual time now.
    pub fn now(&self) -> Instant<Virtual> {
        self.page.page().read(|| self.counter.ticks(), |_| ()).0
    }

    /// Returns the machine's CLOCK_MONOTONIC.
    pub fn wall(&self) -> Instant<Wall> {
        wall_now()
    }

    /// Stops the clock. Returns the instant at which it stands; a stopped clock keeps its instant.
    pub fn pause(&self) -> Instant<Virtual> {
        let mut state = self.lock();
        if state.paused_since.is_none() {
            let at = self.change(&mut state, ChangeKind::Pause, Rate::STOPPED);
            state.paused_since = Some(at);
        }
        state.map.out0
    }

    /// Resumes the clock from the instant at which it stands.
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
    /// Fails if the factor is not within 0.000001 … 1000000, or if the clock would be faster than a
    /// page can show.
    pub fn dilate(&self, factor: f64) -> Result<(), GuestError> {
        let rate = running_rate(factor)?;
        let mut state = self.lock();
        state.calibration.check_pace(factor)?;
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
        let listeners = listeners.unwrap_or_else(|e| e.into_inner());
        listeners.iter().for_each(|listener| listener(factor));
        Ok(())
    }

    /// Registers `listener`, called with every new dilation while the session's programs are
    /// stopped. It must not dilate this clock.
    pub fn on_dilation(&self, listener: impl Fn(f64) + Send + Sync + 'static) {
        let listeners = self.dilation_listeners.lock();
        let mut listeners = listeners.unwrap_or_else(|e| e.into_inner());
        listeners.push(Box::new(listener));
    }

    /// Returns the wall seconds per virtual second.
    pub fn dilation(&self) -> f64 {
        self.lock().dilation
    }

    /// Returns the mode that determines if computing takes time.
    pub fn compute(&self) -> Compute {
        self.lock().compute
    }

    /// Returns true while the clock is paused.
    pub fn is_paused(&self) -> bool {
        self.lock().paused_since.is_some()
    }

    /// Returns the wall time during which the clock stood, up to now.
    pub fn paused_total(&self) -> Duration {
        let state = self.lock();
        match state.paused_since {
            Some(since) => state.paused_total + (wall_now() - since),
            None => state.paused_total,
        }
    }

    /// Returns the wall time since the clock was made.
    pub fn wall_elapsed(&self) -> Duration {
        wall_now() - self.lock().started
    }

    /// Returns the wall instant of virtual time zero.
    pub fn started(&self) -> Instant<Wall> {
        self.lock().started
    }

    /// Returns the map from the session's time to true civil time.
    pub fn civil(&self) -> ClockMap<Virtual, Utc> {
        self.lock().civil()
    }

    /// Returns the instant that the clock showed at a past wall instant. Of instants long past
    /// (some ten thousand changes) only the end is known.
    pub fn at(&self, wall: Instant<Wall>) -> Instant<Virtual> {
        let state = self.lock();
        state.history.at(wall, state.ceiling)
    }

    /// Returns the totals of the clock's changes so far.
    pub fn reckon(&self) -> Reckoning {
        self.lock().history.reckon(wall_now())
    }

    /// Returns the map in force from the machine's clock to this one.
    pub fn map(&self) -> ClockMap<Wall, Virtual> {
        self.lock().map
    }

    /// Returns the map in force from the machine's clock to this one, and the instant at which this
    /// one stops by itself: [`Instant::FAR_FUTURE`] if none.
    pub fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        let state = self.lock();
        (state.map, state.ceiling)
    }

    /// Registers `listener`, called after every change: pause, resume, dilation, skip. It must be
    /// quick and must not use this clock.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        let mut listeners = self.listeners.lock().unwrap_or_else(|e| e.into_inner());
        listeners.push(Box::new(listener));
    }

    /// Advances a clock that is not paused to `to` at once, or to its ceiling, from where it
    /// continues. Does nothing if the clock is there already. The caller guarantees that nothing
    /// would have happened in between.
    ///
    /// `kick` is called when guests read the new time and before any thread of this process is
    /// notified.
    pub(crate) fn skip_to(&self, to: Instant<Virtual>, kick: impl FnOnce()) {
        let mut state = self.lock();
        let to = to.min(state.ceiling);
        if state.paused_since.is_none() && self.now() < to {
            let rate = state.going();
            self.put_in_force(&mut state, ChangeKind::Skip, rate, to);
            kick();
            self.notify();
        }
    }

    /// Adds `step` to the time that has passed for computing programs, for which time passes in no
    /// other way. They see the sum as processor time.
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
        let listeners = self.listeners.lock().unwrap_or_else(|e| e.into_inner());
        listeners.iter().for_each(|listener| listener());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panicking holder leaves consistent values: they are set at once.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Rate assumed by waiting threads that are woken at their instant: they check by themselves after
/// the rest of a wait times 2²⁰.
const SLOWEST: Rate = Rate::from_bits(1 << 44);
