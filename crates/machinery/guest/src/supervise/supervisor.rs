//! What the parts of a supervisor share: clock, processes, timers, and the lock
//! under which clock and processes are changed together.
//!
//! Whoever answers a program's call, skips, or looks for the next event takes it by
//! reference. It knows neither the session that owns it nor who it is shared by.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use timeloom_time::{Instant, Virtual};

use crate::clock::{Clock, Compute, Host};
use crate::enter::guest::{Children, Guest};
use crate::enter::image::Image;
use crate::enter::inject::Injector;
use crate::error::GuestError;
use crate::freeze::Freezer;
use crate::linux::call_names::name_of_call;
use crate::linux::processes;
use crate::supervise::cpu_time::CpuTime;
use crate::supervise::debugged::Debugged;
use crate::supervise::kick;
use crate::supervise::report::Report;
use crate::supervise::turns::Order;
use crate::timers::Timers;

/// What a session and all who answer its programs share.
pub(crate) struct Supervisor {
    pub(crate) injector: Injector,
    pub(crate) clock: Arc<Clock>,
    pub(crate) timers: Timers,
    pub(crate) report: Report,
    pub(crate) freezer: Freezer,
    /// Processes that were launched and are not under the freezer yet.
    pub(crate) newcomers: Mutex<Vec<i32>>,
    children: Mutex<Children>,
    /// Programs that are executed under a debugger.
    pub(crate) debugged: Debugged,
    /// The hosts (their numbers) of the programs that are being started and of the execs
    /// that are being followed.
    execs: Mutex<Vec<usize>>,
    /// Processor time of guests, once the rate has changed.
    pub(crate) cpu_time: CpuTime,
    /// Whether what cannot be virtualised is done natively instead of refused.
    pub(crate) allow_leaks: AtomicBool,
    /// Number of processes ended by their own seccomp filters, by program and call.
    ended_by_filter: Mutex<BTreeMap<(String, i32), u32>>,
    /// True if the user has been told of refused terminal input.
    pub(crate) refused_input: AtomicBool,
    /// True if the kernel's TCP depends on acknowledgements alone, whatever programs request.
    pub(crate) self_clocking: AtomicBool,
    /// Called with messages for the user.
    pub(crate) warn: Box<dyn Fn(String) + Send + Sync>,
    /// Held while clock and processes are being changed together.
    pub(crate) change: Mutex<()>,
    /// Held while those are told whose CLOCK_REALTIME was set.
    telling: Mutex<()>,
    /// How many want to change something and wait for `change`.
    pub(crate) wanting: AtomicUsize,
    /// What was noted of the order in which threads had their turns.
    order: Mutex<Order>,
    /// Says whether anything outside the guests is about to happen to them.
    pub(crate) quiet: OnceLock<QuietCheck>,
    /// Lets what follows the clock go ahead of it.
    pub(crate) ahead: OnceLock<GoAhead>,
}

/// A program is on its way from its fork to its exec.
pub(crate) struct Starting<'a> {
    supervisor: &'a Supervisor,
    host: usize,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.supervisor.exec_ended(self.host);
    }
}

/// Whether nothing outside the guests is about to happen to them.
pub(crate) type QuietCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// Told how far what follows the clock has gone ahead of it; moves the clock there.
pub type Arrive = Box<dyn FnOnce(Instant<Virtual>) + Send>;

/// Lets what follows the clock go ahead of it, up to an instant.
pub(crate) type GoAhead = Box<dyn Fn(Instant<Virtual>, Arrive) -> bool + Send + Sync>;

impl Supervisor {
    /// # Errors
    /// When there is no memory for the image, or no descriptor left.
    pub(crate) fn new(
        clock: Arc<Clock>,
        freezer: Freezer,
        warn: Box<dyn Fn(String) + Send + Sync>,
    ) -> Result<Self, GuestError> {
        Ok(Self {
            injector: Injector::new(Image::new()?, clock.emulates_tsc()),
            timers: Timers::new(Arc::clone(&clock))?,
            clock,
            report: Report::default(),
            freezer,
            newcomers: Mutex::default(),
            children: Mutex::default(),
            debugged: Debugged::default(),
            execs: Mutex::default(),
            cpu_time: CpuTime::default(),
            allow_leaks: AtomicBool::new(false),
            ended_by_filter: Mutex::default(),
            refused_input: AtomicBool::new(false),
            self_clocking: AtomicBool::new(false),
            warn,
            change: Mutex::new(()),
            telling: Mutex::new(()),
            wanting: AtomicUsize::new(0),
            order: Mutex::default(),
            quiet: OnceLock::new(),
            ahead: OnceLock::new(),
        })
    }

    /// Reports a process that its own seccomp filter is about to end for a call. Repeated ends of a
    /// program for the same call are reported [`MOST_REPORTED_ENDS`] times.
    pub(crate) fn report_end_by_filter(&self, process: i32, call: i32) {
        let program = processes::name(process);
        let count = {
            let mut ended = self
                .ended_by_filter
                .lock()
                .unwrap_or_else(|e| e.into_inner());
            let kind = (program.clone(), call);
            if ended.len() >= MOST_KINDS_OF_ENDS && !ended.contains_key(&kind) {
                return;
            }
            let count = ended.entry(kind).or_default();
            *count = count.saturating_add(1);
            *count
        };
        if count > MOST_REPORTED_ENDS {
            return;
        }
        let more = if count == MOST_REPORTED_ENDS {
            "; further processes of this kind are not reported"
        } else {
            ""
        };
        (self.warn)(format!(
            "{program} (process {process}) called {}, which its own seccomp filter does not \
             allow: the filter ends it, as without a session{more}",
            name_of_call(call.into())
        ));
    }

    /// Returns true if a process was reported as ended by its own seccomp filter.
    pub(crate) fn has_end_by_filter(&self) -> bool {
        let ended = self.ended_by_filter.lock();
        !ended.unwrap_or_else(|e| e.into_inner()).is_empty()
    }

    /// Returns true if connections are paced by acknowledgements alone.
    pub(crate) fn is_self_clocking(&self) -> bool {
        self.clock.compute() == Compute::None || self.self_clocking.load(Ordering::Relaxed)
    }

    /// Keeps clock and processes from being changed by others meanwhile.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.wanting.fetch_add(1, Ordering::SeqCst);
        let guard = self.change.lock().unwrap_or_else(|e| e.into_inner());
        self.wanting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// Tells all who wait for a CLOCK_REALTIME that was set: timers, and threads in a
    /// wait with a deadline on it. When this returns all steps until now have been told
    /// of, even those of which another thread has learned first.
    pub(crate) fn tell_of_steps(self: &Arc<Self>) {
        let telling = self.telling.lock().unwrap_or_else(|e| e.into_inner());
        let stepped = self.clock.take_stepped();
        for host in &stepped {
            self.timers.clock_was_set(host);
        }
        drop(telling);
        if !stepped.is_empty() {
            self.kick_soon();
        }
    }

    /// Makes every thread that waits in virtual time compute its timeout anew, when
    /// nobody is changing anything.
    pub(crate) fn kick_soon(self: &Arc<Self>) {
        // Counted from now on, so that time does not skip before it is done.
        self.wanting.fetch_add(1, Ordering::SeqCst);
        let own = Arc::clone(self);
        // In a thread of its own: all threads of the guests are to stand, and
        // one of them may be waiting for us to answer.
        let kick = move || {
            let change = own.lock();
            own.wanting.fetch_sub(1, Ordering::SeqCst);
            if let Err(error) = own.kick_waiting() {
                (own.warn)(error.to_string());
            }
            drop(change);
        };
        if let Err(error) = std::thread::Builder::new().spawn(kick) {
            self.wanting.fetch_sub(1, Ordering::SeqCst);
            (self.warn)(format!("no thread to wake who waits too long: {error}"));
        }
    }

    /// Makes every thread that waits in virtual time compute its timeout anew.
    /// With [`Self::lock`] held.
    pub(crate) fn kick_waiting(&self) -> Result<(), GuestError> {
        let stood = self.clock.is_paused();
        if !stood {
            self.or_end_all(self.freezer.freeze(PATIENCE))?;
        }
        kick::kick_waiting(&self.freezer.list()?, &self.injector.image.wait);
        if !stood {
            self.freezer.thaw()?;
        }
        Ok(())
    }

    /// A process that was not stopped would go on while its clock stands. So where one
    /// was not, all are ended, and it is said.
    ///
    /// # Errors
    /// What `stopped` says, and what was done about it.
    pub(crate) fn or_end_all(&self, stopped: Result<(), GuestError>) -> Result<(), GuestError> {
        stopped.map_err(|error| {
            self.freezer.kill_wherever_they_are();
            let doing = "not all programs of the session could be stopped, so all were ended";
            let error = GuestError::system(doing)(std::io::Error::other(error.to_string()));
            (self.warn)(error.to_string());
            error
        })
    }

    /// An exec on this host is being followed, until [`Self::exec_ended`].
    pub(crate) fn exec_begun(&self, host: usize) {
        self.execs().push(host);
    }

    /// One of the execs on this host is not followed any more.
    pub(crate) fn exec_ended(&self, host: usize) {
        let mut execs = self.execs();
        if let Some(index) = execs.iter().position(|&other| other == host) {
            execs.swap_remove(index);
        }
    }

    fn execs(&self) -> MutexGuard<'_, Vec<usize>> {
        self.execs.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A program is being started on this host, as long as this is kept.
    pub(crate) fn starting(&self, host: usize) -> Starting<'_> {
        self.exec_begun(host);
        Starting {
            supervisor: self,
            host,
        }
    }

    /// Whether a program is on its way into the session. One that executes on a host
    /// that is paused by itself is not: it stands there until the host goes on.
    pub(crate) fn is_starting_one(&self) -> bool {
        self.execs().iter().any(|&host| !self.clock.is_held(host))
            || !self
                .newcomers
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .is_empty()
    }

    /// Somebody in this process waits for the end of this program, and settles it.
    pub(crate) fn watch_end(&self, guest: &Guest) {
        self.children().add(guest);
    }

    /// Whether such a program has ended, and that is not settled yet.
    pub(crate) fn has_unsettled_end(&self) -> bool {
        self.children().has_unsettled_end()
    }

    /// Reads or notes what is to be said of the order of turns.
    pub(crate) fn with_order<T>(&self, work: impl FnOnce(&mut Order) -> T) -> T {
        work(&mut self.order.lock().unwrap_or_else(|e| e.into_inner()))
    }

    fn children(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Keeps clock and processes from being changed meanwhile, if nobody does.
    pub(crate) fn try_change(&self) -> Option<MutexGuard<'_, ()>> {
        self.change.try_lock().ok()
    }

    /// Does `work` while the processes stand; it is told those that go on
    /// afterwards. The clock is not touched; the caller holds [`Self::try_change`].
    pub(crate) fn with_guests_stopped(&self, work: impl FnOnce(&[i32])) -> Result<(), GuestError> {
        let frozen = self.freezer.freeze(PATIENCE);
        if frozen.is_ok() {
            work(&self.freezer.processes_not_held());
        }
        self.freezer.thaw()?;
        frozen
    }

    /// Whether nothing but the guests themselves can make anything happen to them.
    pub(crate) fn is_quiet(&self) -> bool {
        // One who waits for the lock sleeps, but is about to do something.
        self.wanting.load(Ordering::SeqCst) == 0
            && !self.is_starting_one()
            && !self.has_unsettled_end()
            && self.quiet.get().is_none_or(|quiet| quiet())
    }

    /// Lets what follows the clock go ahead of it up to `limit`, and the clock after it,
    /// before it hands anything out. False where nothing does. With [`Self::lock`] held.
    pub(crate) fn go_ahead(&self, limit: Instant<Virtual>) -> bool {
        let Some(ahead) = self.ahead.get() else {
            return false;
        };
        let clock = Arc::clone(&self.clock);
        ahead(limit, Box::new(move |at| clock.skip_to(at, || {})))
    }

    /// The processes of hosts that are not paused by themselves.
    pub(crate) fn processes_not_held(&self) -> Vec<i32> {
        self.freezer.processes_not_held()
    }

    /// Where threads stand that wait in virtual time.
    pub(crate) fn wait_range(&self) -> &RangeInclusive<u64> {
        &self.injector.image.wait
    }

    /// Notes what the processes of these hosts, which stand, have used under the
    /// dilation that is about to end.
    pub(crate) fn rebase_cpu_time(&self, hosts: &[Arc<Host>]) {
        self.cpu_time.forget_ended();
        for host in hosts {
            let pids = self.freezer.processes_of(host.index());
            let dilation = self.clock.dilation_on(host.index());
            self.cpu_time.rebase(&pids, dilation);
        }
    }

    /// Tells the programs of a host by what their processor time is divided.
    pub(crate) fn show_dilation(&self, host: &Host) {
        let dilation = self.clock.dilation_on(host.index());
        host.page().page().past.set_dilation(dilation);
    }
}

/// Maximum number of reported ends by a filter, for each program and call.
const MOST_REPORTED_ENDS: u32 = 10;
/// Maximum number of counted pairs of program and call: a program can have any name.
const MOST_KINDS_OF_ENDS: usize = 100;

/// How long a process may take to stop before that counts as a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
