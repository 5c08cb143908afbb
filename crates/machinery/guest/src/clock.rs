//! The session's clock: counter → wall → virtual, published in the clock page.
//!
//! Two maps, composed. The first, counter → wall, is *calibrated*: it follows
//! the machine's CLOCK_MONOTONIC and is steered by rate alone, so that it never
//! jumps. The second, wall → virtual, is *commanded*: pause is rate 0, dilation
//! by f is rate 1/f. `T_virtual = Σ (running wall time) / f`; paused time never
//! counts (the paper's equation in section 2.1; its Algorithm 1 divides the
//! paused time by f as well, which a clock that stands still cannot mean).
//!
//! Virtual time is the session's, and is true time here. Two more maps follow for each
//! host: how much of it the host lives through, for hosts can be held and dilated one
//! by one, and what the host's clock makes of that, which its guests see: [`hosts`].

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

/// What was done to a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was made to stand.
    Pause,
    /// It goes on.
    Resume,
    /// It has a new dilation.
    Dilate,
    /// It skipped ahead, because nothing would have happened in between.
    Skip,
}

/// A virtual clock with its page. All methods may be called from any thread.
pub struct Clock {
    page: Arc<PageMapping<Virtual>>,
    counter: Counter,
    /// Said once the kernel keeps time with another counter.
    distrusted: OnceLock<String>,
    /// Drawn for each session, so that a page tells whose it is.
    number: u64,
    /// The counter that guests see, if it is not the machine's.
    tsc: Option<TscLine>,
    state: Mutex<State>,
    changed: Condvar,
    /// Told of by [`Self::wake`] alone. Who cares for nothing else waits here, so
    /// that a pause need not wake a thread that only goes back to sleep.
    woken: Condvar,
    /// Called after every change.
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Called after every change of the dilation.
    dilation_listeners: Mutex<Vec<DilationListener>>,
    /// Called after every change of a host's own time.
    host_listeners: Mutex<Vec<HostListener>>,
    /// Raised when a host's clock was changed by a program, or its course.
    host_version: AtomicU64,
    /// Raised when the clock is not to stop by itself any more.
    stops: AtomicU64,
}

type DilationListener = Box<dyn Fn(f64) + Send + Sync>;

struct State {
    calibration: Calibration,
    /// wall → virtual, in force now.
    map: ClockMap<Wall, Virtual>,
    /// counter → virtual, as readers have it.
    published: PageMap<Virtual>,
    /// Where it stops by itself, the earliest of the three below;
    /// [`Instant::FAR_FUTURE`] for nowhere.
    ceiling: Instant<Virtual>,
    /// Where it is to stop for now.
    stop: Option<Instant<Virtual>>,
    /// Where a pause lies that is agreed on with other machines;
    /// [`Instant::FAR_FUTURE`] for nowhere.
    bound: Instant<Virtual>,
    /// Beyond which it never goes; [`Instant::FAR_FUTURE`] for nowhere.
    end: Instant<Virtual>,
    /// The rate while running, if computing takes time.
    rate: Rate,
    compute: Compute,
    /// The steps that were made for programs that wait for processor time to pass.
    computed: Duration,
    dilation: f64,
    paused_since: Option<Instant<Wall>>,
    paused_total: Duration,
    started: Instant<Wall>,
    offsets: Offsets,
    history: History,
    /// Instants that somebody in this process waits for, with a number each.
    awaited: Vec<(u64, Awaited)>,
    /// What somebody who does not wait here has announced.
    announced: Option<Instant<Virtual>>,
    waits: u64,
    hosts: Vec<HostState>,
    /// Present if programs see virtual dates of files.
    file_dates: Option<FileDates>,
}

impl State {
    /// After a change of the stop, the bound or the end.
    fn set_ceiling(&mut self) {
        let stop = self.stop.unwrap_or(Instant::FAR_FUTURE);
        self.ceiling = stop.min(self.bound).min(self.end);
    }

    /// The rate while the clock is not paused.
    fn going(&self) -> Rate {
        match self.compute {
            Compute::Real => self.rate,
            Compute::None => Rate::STOPPED,
        }
    }

    /// Virtual per wall, for those who wait: for how long at most until they look again.
    fn waiting(&self) -> Rate {
        match self.compute {
            Compute::Real => self.rate,
            Compute::None => SLOWEST,
        }
    }

    /// The session's time to true civil time.
    fn civil(&self) -> ClockMap<Virtual, Utc> {
        ClockMap::ahead_by(Duration::from_ns(self.offsets.realtime_ns))
    }
}

impl Clock {
    /// In a sentence, what is not as good as it should be on this machine.
    pub fn degraded_mode(&self) -> Option<&'static str> {
        match self.counter.kind() {
            CounterKind::Tsc => None,
            // Chosen, and documented with the choice.
            CounterKind::Monotonic if self.tsc.is_some() => None,
            CounterKind::Monotonic => Some(
                "The kernel does not trust the processor's counter here; clock reads make a system call and are slower.",
            ),
        }
    }

    /// In a sentence, why what guests saw of this clock is not to be trusted.
    pub fn distrusted(&self) -> Option<&str> {
        self.distrusted.get().map(String::as_str)
    }

    /// Whether guests see a virtual time-stamp counter.
    pub(crate) fn emulates_tsc(&self) -> bool {
        self.tsc.is_some()
    }

    /// Virtual time now.
    pub fn now(&self) -> Instant<Virtual> {
        self.page.page().read(|| self.counter.ticks(), |_| ()).0
    }

    /// The machine's CLOCK_MONOTONIC.
    pub fn wall(&self) -> Instant<Wall> {
        wall_now()
    }

    /// Makes the clock stand. Returns the instant at which it stands; a clock
    /// that stands already keeps it.
    pub fn pause(&self) -> Instant<Virtual> {
        let mut state = self.lock();
        if state.paused_since.is_none() {
            let at = self.change(&mut state, ChangeKind::Pause, Rate::STOPPED);
            state.paused_since = Some(at);
        }
        state.map.out0
    }

    /// Lets the clock go on from where it stands.
    pub fn resume(&self) {
        let mut state = self.lock();
        if let Some(since) = state.paused_since.take() {
            let rate = state.going();
            let at = self.change(&mut state, ChangeKind::Resume, rate);
            state.paused_total += at - since;
        }
    }

    /// Sets how many wall seconds a virtual second takes from now on.
    ///
    /// # Errors
    /// A factor that is not within 0.000001 … 1000000, or faster than a page can show.
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

    /// Has `listener` called with every new dilation. A session's programs stand meanwhile.
    /// It must not dilate this clock.
    pub fn on_dilation(&self, listener: impl Fn(f64) + Send + Sync + 'static) {
        let listeners = self.dilation_listeners.lock();
        let mut listeners = listeners.unwrap_or_else(|e| e.into_inner());
        listeners.push(Box::new(listener));
    }

    /// Wall seconds per virtual second.
    pub fn dilation(&self) -> f64 {
        self.lock().dilation
    }

    /// Whether computing takes time.
    pub fn compute(&self) -> Compute {
        self.lock().compute
    }

    /// Whether the clock was paused.
    pub fn is_paused(&self) -> bool {
        self.lock().paused_since.is_some()
    }

    /// Wall time during which the clock stood, up to now.
    pub fn paused_total(&self) -> Duration {
        let state = self.lock();
        match state.paused_since {
            Some(since) => state.paused_total + (wall_now() - since),
            None => state.paused_total,
        }
    }

    /// Wall time since the clock was made.
    pub fn wall_elapsed(&self) -> Duration {
        wall_now() - self.lock().started
    }

    /// Wall instant of virtual time zero.
    pub fn started(&self) -> Instant<Wall> {
        self.lock().started
    }

    /// The session's time to true civil time.
    pub fn civil(&self) -> ClockMap<Virtual, Utc> {
        self.lock().civil()
    }

    /// What the clock showed at a past wall instant. Of instants long past (some ten
    /// thousand changes) only the end is known.
    pub fn at(&self, wall: Instant<Wall>) -> Instant<Virtual> {
        let state = self.lock();
        state.history.at(wall, state.ceiling)
    }

    /// What the clock's changes come to so far.
    pub fn reckon(&self) -> Reckoning {
        self.lock().history.reckon(wall_now())
    }

    /// The map in force from the machine's clock to this one.
    pub fn map(&self) -> ClockMap<Wall, Virtual> {
        self.lock().map
    }

    /// The map in force from the machine's clock to this one, and where this one stops
    /// by itself: [`Instant::FAR_FUTURE`] for nowhere.
    pub fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        let state = self.lock();
        (state.map, state.ceiling)
    }

    /// Has `listener` called after every change: pause, resume, dilation, skip.
    /// It must be quick and must not use this clock.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        let mut listeners = self.listeners.lock().unwrap_or_else(|e| e.into_inner());
        listeners.push(Box::new(listener));
    }

    /// Lets a clock that is not paused show `to` at once, or where it is to stop, and go
    /// on from there. Does nothing when it is there already. The caller vouches that
    /// nothing would have happened in between.
    ///
    /// `kick` is called when guests read the new time and before anybody in this
    /// process is told of it.
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

    /// So much has passed for programs that computed, which takes no time else. They see
    /// it as processor time.
    pub(crate) fn add_computed(&self, step: Duration) {
        let mut state = self.lock();
        state.computed += step;
        for host in &state.hosts {
            host.page().page().show_computed(state.computed);
        }
    }

    /// Tells those in this process who wait for an instant.
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

/// The rate at which those wait who are woken when their time has come: they look by
/// themselves after what is left of a wait, 2²⁰ times over.
const SLOWEST: Rate = Rate::from_bits(1 << 44);
