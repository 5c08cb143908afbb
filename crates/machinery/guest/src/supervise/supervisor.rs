//! State that the parts of a supervisor share: clock, processes, timers, and the lock under which
//! clock and processes are changed together.
//!
//! The code that answers a program's call, skips, or finds the next event takes this state by
//! reference. It has no access to the session that owns the state, or to the session's other users.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as StdInstant};

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
use crate::supervise::interrupt;
use crate::supervise::real_time::Pacing;
use crate::supervise::report::Report;
use crate::supervise::scheduler::SchedulingRecord;
use crate::supervise::shared_order::SharedOrder;
use crate::timers::Timers;

/// State shared by a session and all threads that serve its programs.
pub(crate) struct Supervisor {
    pub(crate) injector: Injector,
    pub(crate) clock: Arc<Clock>,
    pub(crate) timers: Timers,
    pub(crate) report: Report,
    pub(crate) freezer: Freezer,
    /// Launched processes that were not added to the freezer yet.
    pub(crate) newcomers: Mutex<Vec<i32>>,
    children: Mutex<Children>,
    /// State of programs that are executed under a debugger.
    pub(crate) debugged: Debugged,
    /// Host numbers of the programs that are being started and of the execs that are being
    /// followed.
    execs: Mutex<Vec<usize>>,
    /// Records of the guests' processor time at the last change of the rate.
    pub(crate) cpu_time: CpuTime,
    /// True if calls that cannot be virtualised are executed in real time instead of refused.
    pub(crate) allow_leaks: AtomicBool,
    /// Number of processes that their own seccomp filters have ended, by program and call.
    ended_by_filter: Mutex<BTreeMap<(String, i32), u32>>,
    /// True if the user has been informed that terminal input was refused.
    pub(crate) refused_input: AtomicBool,
    /// True if the congestion control of TCP depends only on acknowledgements, whatever programs
    /// request.
    pub(crate) self_clocking: AtomicBool,
    /// Inode numbers of the session's network namespaces.
    pub(crate) networks: OnceLock<Vec<u32>>,
    /// True if time has skipped, or could have, before.
    pub(crate) has_skipped: AtomicBool,
    /// True if the kernel had deferred work at the last attempt to skip after a long wait for rest.
    pub(crate) is_deferred: AtomicBool,
    /// True if time has not skipped at any time while a queue in these namespaces held frames back.
    pub(crate) detects_held_frames: AtomicBool,
    /// Name of the congestion control with CUBIC in virtual time, if there is one. A program that
    /// requests CUBIC gets it where connections are paced by acknowledgements alone.
    pub(crate) virtual_cubic: OnceLock<String>,
    /// Callback for messages to the user.
    pub(crate) warn: Box<dyn Fn(String) + Send + Sync>,
    /// Lock that is held while clock and processes are changed together.
    pub(crate) change: Mutex<()>,
    /// Lock that is held while waiting threads and timers are notified that CLOCK_REALTIME was set.
    telling: Mutex<()>,
    /// Number of threads that wait for `change`.
    pub(crate) wanting: AtomicUsize,
    /// True from the session's end on.
    is_over: AtomicBool,
    /// Record of the order in which threads were scheduled.
    order: Mutex<SchedulingRecord>,
    /// Guest thread over which time has not skipped, and the instant at which that began.
    busy: Mutex<Option<(i32, StdInstant)>>,
    /// Function that returns false if something outside the guests is about to affect them.
    pub(crate) quiet: OnceLock<QuietCheck>,
    /// Function that lets a component that follows the clock run ahead of it.
    pub(crate) ahead: OnceLock<GoAhead>,
    /// Order of events that this session shares with others; unset if it shares none.
    pub(crate) shared_order: OnceLock<Arc<dyn SharedOrder>>,
}

/// Guard for a program between its fork and its exec.
pub(crate) struct Starting<'a> {
    supervisor: &'a Supervisor,
    host: usize,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.supervisor.exec_ended(self.host);
    }
}

/// Function that returns true if nothing outside the guests is about to affect them.
pub(crate) type QuietCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// Callback to which a component passes the instant that it has reached ahead of the clock; it
/// moves the clock to that instant.
pub type ArrivalCallback = Box<dyn FnOnce(Instant<Virtual>) + Send>;

/// Function that lets a component run ahead of the clock, up to the given instant.
pub(crate) type GoAhead = Box<dyn Fn(Instant<Virtual>, ArrivalCallback) -> bool + Send + Sync>;

impl Supervisor {
    /// Creates the state of a session.
    ///
    /// # Errors
    /// Fails if there is no memory for the image, or if no descriptor is left.
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
            children: Mutex::new(Children::new()?),
            debugged: Debugged::default(),
            execs: Mutex::default(),
            cpu_time: CpuTime::default(),
            allow_leaks: AtomicBool::new(false),
            ended_by_filter: Mutex::default(),
            refused_input: AtomicBool::new(false),
            self_clocking: AtomicBool::new(false),
            networks: OnceLock::new(),
            has_skipped: AtomicBool::new(false),
            is_deferred: AtomicBool::new(false),
            detects_held_frames: AtomicBool::new(false),
            virtual_cubic: OnceLock::new(),
            warn,
            change: Mutex::new(()),
            telling: Mutex::new(()),
            wanting: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            order: Mutex::default(),
            busy: Mutex::default(),
            quiet: OnceLock::new(),
            ahead: OnceLock::new(),
            shared_order: OnceLock::new(),
        })
    }

    /// Reports that a process is about to be ended by its own seccomp filter because of a call.
    /// Ends of the same program for the same call are reported at most [`MOST_REPORTED_ENDS`]
    /// times.
    pub(crate) fn report_end_by_filter(&self, process: i32, call: i32) {
        let program = processes::name(process);
        let count = {
            let mut ended = self.ended_by_filter.lock();
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

    /// Returns true if at least one process was reported as ended by its own seccomp filter.
    pub(crate) fn has_end_by_filter(&self) -> bool {
        !self.ended_by_filter.lock().is_empty()
    }

    /// Returns how connections are paced.
    pub(crate) fn pacing(&self) -> Pacing<'_> {
        let is_self_clocking =
            self.clock.compute() == Compute::None || self.self_clocking.load(Ordering::Relaxed);
        match is_self_clocking {
            true => Pacing::ByAcknowledgements {
                cubic: self.virtual_cubic.get().map(String::as_str),
            },
            false => Pacing::ByTheKernel,
        }
    }

    /// Ends all processes and removes what the session has created to stop them. A change of the
    /// clock that is still in progress then stops no process, and does not report that.
    pub(crate) fn remove_all(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.freezer.remove();
    }

    /// Takes the lock that excludes other changes of clock and processes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.wanting.fetch_add(1, Ordering::SeqCst);
        let guard = self.change.lock();
        self.wanting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// Notifies timers, and threads whose wait has a deadline on CLOCK_REALTIME, that this clock
    /// was set. When the function returns, all steps until now have been reported, including those
    /// that another thread noticed first.
    pub(crate) fn tell_of_steps(self: &Arc<Self>) {
        let telling = self.telling.lock();
        let stepped = self.clock.take_stepped();
        for host in &stepped {
            self.timers.clock_was_set(host);
        }
        drop(telling);
        if !stepped.is_empty() {
            self.interrupt_soon();
        }
    }

    /// Makes every thread that waits in virtual time recompute its timeout, as soon as no other
    /// change is in progress. Does not wait for that.
    pub(crate) fn interrupt_soon(self: &Arc<Self>) {
        // The request is counted from now on, so that time does not skip before it is carried out.
        self.wanting.fetch_add(1, Ordering::SeqCst);
        let own = Arc::clone(self);
        // A separate thread does this: all threads of the guests are stopped for it, and one of
        // them may be waiting for this thread's answer.
        let interrupt = move || {
            let change = own.lock();
            own.wanting.fetch_sub(1, Ordering::SeqCst);
            match own.interrupt_waiting() {
                Err(error) if !own.is_over.load(Ordering::SeqCst) => {
                    (own.warn)(error.to_string());
                }
                _ => {}
            }
            drop(change);
        };
        if let Err(error) = std::thread::Builder::new().spawn(interrupt) {
            self.wanting.fetch_sub(1, Ordering::SeqCst);
            (self.warn)(format!(
                "cannot start the thread that wakes overdue waits: {error}"
            ));
        }
    }

    /// Makes every thread that waits in virtual time recompute its timeout. The caller must hold
    /// [`Self::lock`].
    pub(crate) fn interrupt_waiting(&self) -> Result<(), GuestError> {
        let stood = self.clock.is_paused();
        if !stood {
            self.or_end_all(self.freezer.freeze(PATIENCE))?;
        }
        interrupt::interrupt_waiting(&self.freezer.list()?, &self.injector.image.wait);
        if !stood {
            self.freezer.thaw()?;
        }
        Ok(())
    }

    /// If `stopped` is an error, ends all processes and reports this: a process that was not
    /// stopped would continue while its clock stands.
    ///
    /// # Errors
    /// Returns the error of `stopped`, with a description of the measures taken.
    pub(crate) fn or_end_all(&self, stopped: Result<(), GuestError>) -> Result<(), GuestError> {
        stopped.map_err(|error| {
            if self.is_over.load(Ordering::SeqCst) {
                return error;
            }
            self.freezer.kill_wherever_they_are();
            let doing = "not all programs of the session could be stopped, so all were ended";
            let error = GuestError::system(doing)(std::io::Error::other(error.to_string()));
            (self.warn)(error.to_string());
            error
        })
    }

    /// Records that an exec on the host with this number is being followed, until
    /// [`Self::exec_ended`].
    pub(crate) fn exec_begun(&self, host: usize) {
        self.execs().push(host);
    }

    /// Records that one exec on the host with this number is no longer followed.
    pub(crate) fn exec_ended(&self, host: usize) {
        let mut execs = self.execs();
        if let Some(index) = execs.iter().position(|&other| other == host) {
            execs.swap_remove(index);
        }
    }

    fn execs(&self) -> MutexGuard<'_, Vec<usize>> {
        self.execs.lock()
    }

    /// Records that a program is being started on the host with this number, until the result is
    /// dropped.
    pub(crate) fn starting(&self, host: usize) -> Starting<'_> {
        self.exec_begun(host);
        Starting {
            supervisor: self,
            host,
        }
    }

    /// Returns the numbers of the hosts on which programs are being started or executed, except
    /// those that are held, in the order of the starts.
    pub(crate) fn starting_hosts(&self) -> Vec<usize> {
        let mut hosts = self.execs().clone();
        hosts.retain(|&host| !self.clock.is_held(host));
        hosts
    }

    /// Records the guest thread over which time cannot skip at the moment; `None` if there is none.
    pub(crate) fn note_busy(&self, thread: Option<i32>) {
        let mut busy = self.busy.lock();
        if busy.map(|(same, _)| same) != thread {
            *busy = thread.map(|thread| (thread, StdInstant::now()));
        }
    }

    /// Returns the wall time for which this guest thread has prevented skips; `None` if it is not
    /// the thread of the last `note_busy`.
    pub(crate) fn busy_for(&self, thread: i32) -> Option<Duration> {
        let busy = self.busy.lock();
        let same = busy.filter(|(busy, _)| *busy == thread);
        same.map(|(_, since)| since.elapsed())
    }

    /// Returns true if a program is about to enter the session. An exec on a held host is not
    /// counted: it does not continue until the host is resumed.
    pub(crate) fn is_starting_one(&self) -> bool {
        self.execs().iter().any(|&host| !self.clock.is_held(host))
            || !self.newcomers.lock().is_empty()
    }

    /// Records that a thread of this process waits for the end of this program and will handle it.
    ///
    /// # Errors
    /// Fails if the kernel has no memory for this.
    pub(crate) fn watch_end(&self, guest: &Guest) -> Result<(), GuestError> {
        self.children().add(guest)
    }

    /// Returns true if such a program has ended, and its end has not been handled yet.
    pub(crate) fn has_unsettled_end(&self) -> bool {
        self.children().has_unsettled_end()
    }

    /// Calls `work` with the record of the scheduling order, to read or update it.
    pub(crate) fn with_order<T>(&self, work: impl FnOnce(&mut SchedulingRecord) -> T) -> T {
        work(&mut self.order.lock())
    }

    fn children(&self) -> MutexGuard<'_, Children> {
        self.children.lock()
    }

    /// Takes the lock that excludes other changes of clock and processes. Returns `None` if another
    /// change is in progress.
    pub(crate) fn try_change(&self) -> Option<MutexGuard<'_, ()>> {
        self.change.try_lock()
    }

    /// Calls `work` while the processes are stopped, with the identifiers of those that continue
    /// afterwards. The clock is not changed. The caller must hold [`Self::try_change`].
    pub(crate) fn with_guests_stopped(&self, work: impl FnOnce(&[i32])) -> Result<(), GuestError> {
        let frozen = self.freezer.freeze(PATIENCE);
        let listed = frozen.and_then(|()| self.freezer.processes_not_held());
        let done = listed.map(|pids| work(&pids));
        self.freezer.thaw()?;
        done
    }

    /// Returns true if nothing outside the guests is about to affect them.
    pub(crate) fn is_quiet(&self) -> bool {
        // A thread that waits for the lock sleeps, but is about to act.
        self.wanting.load(Ordering::SeqCst) == 0
            && !self.is_starting_one()
            && !self.has_unsettled_end()
            && self.quiet.get().is_none_or(|quiet| quiet())
    }

    /// Lets the component that follows the clock run ahead of it up to `limit`, and moves the clock
    /// to the instant reached before anything is delivered. Returns false if there is no such
    /// component. The caller must hold [`Self::lock`].
    pub(crate) fn go_ahead(&self, limit: Instant<Virtual>) -> bool {
        let Some(ahead) = self.ahead.get() else {
            return false;
        };
        let clock = Arc::clone(&self.clock);
        ahead(limit, Box::new(move |at| clock.skip_to(at, || {})))
    }

    /// Returns the identifiers of the processes of hosts that are not held.
    ///
    /// # Errors
    /// Fails if no descriptor or no memory is left, or if the cgroup of a host was removed.
    pub(crate) fn processes_not_held(&self) -> Result<Vec<i32>, GuestError> {
        self.freezer.processes_not_held()
    }

    /// Returns the addresses of the image's waiting instruction, at which threads wait in virtual
    /// time.
    pub(crate) fn wait_range(&self) -> &RangeInclusive<u64> {
        &self.injector.image.wait
    }

    /// Records the processor time that the processes of these hosts have used under the dilation
    /// that is about to end. The processes must be stopped.
    pub(crate) fn rebase_cpu_time(&self, hosts: &[Arc<Host>]) {
        self.cpu_time.forget_ended();
        for host in hosts {
            let pids = self.freezer.processes_of(host.index());
            let dilation = self.clock.dilation_on(host.index());
            self.cpu_time.rebase(&pids, dilation);
        }
    }

    /// Publishes the dilation, by which programs of a host divide their processor time, on the
    /// host's page.
    pub(crate) fn show_dilation(&self, host: &Host) {
        let dilation = self.clock.dilation_on(host.index());
        host.page().page().past.set_dilation(dilation);
    }
}

/// Maximum number of reports of ends by a filter, for each program and call.
const MOST_REPORTED_ENDS: u32 = 10;
/// Maximum number of counted pairs of program and call. It is limited because a program can have
/// any name.
const MOST_KINDS_OF_ENDS: usize = 100;

/// Wall time within which a process must stop.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
