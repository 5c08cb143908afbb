//! Session: a clock, the processes that run by it, and a supervisor.

mod agreed;
mod hosts;
mod inspection;
mod registered;
mod status;

use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use timeloom_time::{Instant, Virtual};
use tracing::{debug, debug_span};

use crate::clock::{
    Card, CardOptions, Clock, ClockOptions, FrameStamps, Host, HostOptions, ProcFiles,
};
use crate::enter::guest::Guest;
use crate::enter::launch::{Conditions, launch};
use crate::enter::spec::CommandSpec;
use crate::error::GuestError;
use crate::freeze::{FreezeKind, Freezer};
use crate::leftovers::Reaper;
use crate::linux::kernel_log::KernelLog;
use crate::linux::memory::PageMapping;
use crate::linux::spare;
use crate::names::{PageName, list_sessions, socket_path};
use crate::register::Registration;
use crate::supervise::activity::Activity;
use crate::supervise::interrupt;
use crate::supervise::listener;
use crate::supervise::next_event;
use crate::supervise::notify::Listener;
use crate::supervise::own_threads::SKIPPER;
use crate::supervise::report::UnhandledCall;
use crate::supervise::scheduler::SchedulingRecord;
use crate::supervise::shared_order::SharedOrder;
use crate::supervise::skip;
use crate::supervise::supervisor::{ArrivalCallback, PATIENCE, Supervisor};
use crate::time_files::{MachineFiles, TimeFiles, View};
pub use status::{Process, SessionStatus};

/// Options of a new session.
pub struct SessionOptions {
    /// Name of the session for `timeloom ps` and other commands: letters, digits, `-`, `_`.
    pub name: String,
    /// Options of the session's clock.
    pub clock: ClockOptions,
    /// Callback for messages to the user, for example about a call that is not virtualised or a
    /// program that could not be prepared.
    pub warn: Box<dyn Fn(String) + Send + Sync>,
}

/// Running session. Dropping this value ends all its processes and removes its objects.
pub struct Session {
    name: String,
    clock: Arc<Clock>,
    supervisor: Arc<Supervisor>,
    /// Hosts by number. The first host exists from the beginning.
    hosts: Mutex<Vec<Arc<Host>>>,
    page_name: PageName,
    threads: Vec<JoinHandle<()>>,
    /// Thread that skips time, if there is one, and the flag that ends it.
    skipper: Mutex<Option<(Arc<AtomicBool>, JoinHandle<()>)>>,
    ended: Arc<AtomicBool>,
    /// Names of programs that were started under a name, by the identifier of their first process.
    programs: Arc<Mutex<Vec<(i32, String)>>>,
    /// Programs that were attached to the session.
    registered: Mutex<Vec<Registration>>,
    /// Kernel log since the session began; `None` if this process may not read it.
    kernel_log: Mutex<Option<KernelLog>>,
    /// File system with `/proc/uptime` and `/proc/stat`, or the reason why there is none.
    time_files: Result<TimeFiles, MachineFiles>,
    /// True if this session has created the control socket of its name.
    pub(crate) has_socket: AtomicBool,
    /// True if the session is about to end: requests that wait for an instant are answered.
    pub(crate) closing: Arc<AtomicBool>,
    /// Number of requests through the control socket that are being answered.
    pub(crate) answering: Arc<AtomicUsize>,
    reaper: Reaper,
}

impl Session {
    /// Creates the clock and the supervisor's objects. Starts no program yet.
    ///
    /// # Errors
    /// Fails for a bad name or dilation; on a machine without memfd or seccomp listeners; and on a
    /// machine whose page size is not 4 KiB.
    pub fn new(options: SessionOptions) -> Result<Self, GuestError> {
        check_name(&options.name)?;
        check_pages()?;
        // All objects created below are found by this name, also for their removal. So two sessions
        // of one name would end each other's programs. (If sessions cannot be listed safely,
        // `serve` reports it.)
        if list_sessions().is_ok_and(|others| others.contains(&options.name)) {
            return Err(GuestError::Usage(format!(
                "a session named `{}` is already running",
                options.name
            )));
        }
        let page_name = PageName::new(&options.name);
        // The page is created first: our mapping of it shows other processes that the session
        // lives.
        let page = Arc::new(PageMapping::new(&page_name.to_c_string())?);
        let freezer = Freezer::new(&options.name, &page_name)?;
        // This process forks here, which must happen while it has few threads.
        let reaper = Reaper::start(&options.name, &freezer, page_name.clone())?;
        let clock = Arc::new(Clock::new(page, &options.clock)?);
        // The host's page has the same name, which identifies the session of a program.
        let host_page = PageMapping::new(&page_name.to_c_string())?;
        let host = clock.add_host("", host_page, &HostOptions::default());
        host.page().page().past.set_dilation(options.clock.dilation);
        let supervisor = Arc::new(Supervisor::new(Arc::clone(&clock), freezer, options.warn)?);
        let time_files = match options.clock.proc {
            ProcFiles::Virtual => TimeFiles::start(&page_name),
            ProcFiles::Machine => Err(MachineFiles::AsAsked),
        };
        if let Ok(files) = &time_files {
            reaper.will_end(files.mount());
        }
        let mut session = Self {
            name: options.name,
            clock,
            supervisor,
            hosts: Mutex::new(vec![host]),
            page_name,
            threads: Vec::new(),
            skipper: Mutex::default(),
            ended: Arc::default(),
            programs: Arc::default(),
            registered: Mutex::default(),
            kernel_log: Mutex::new(KernelLog::from_now_on()),
            time_files,
            has_socket: AtomicBool::new(false),
            closing: Arc::default(),
            answering: Arc::default(),
            reaper,
        };
        session.start_threads()?;
        spare::put_aside();
        if options.clock.paused {
            session.supervisor.freezer.freeze(PATIENCE)?;
        }
        Ok(session)
    }

    fn start_threads(&mut self) -> Result<(), GuestError> {
        let supervisor = Arc::clone(&self.supervisor);
        self.threads
            .push(thread("timers", move || supervisor.timers.serve())?);
        let supervisor = Arc::clone(&self.supervisor);
        self.threads.push(thread("owners", move || {
            if let Err(error) = supervisor.timers.serve_ends() {
                (supervisor.warn)(format!("timers of ended processes are kept: {error}"));
            }
        })?);
        let (supervisor, ended) = (Arc::clone(&self.supervisor), Arc::clone(&self.ended));
        self.threads
            .push(thread("hosts", move || serve_hosts(&supervisor, &ended))?);
        let clock = Arc::downgrade(&self.clock);
        let supervisor = Arc::downgrade(&self.supervisor);
        // The thread ends by itself when the session is dropped, and is not joined.
        thread("calibration", move || {
            for turn in 0u32.. {
                // The first calibrations are frequent, since the one at the start was short.
                std::thread::sleep(StdDuration::from_millis(if turn < 5 { 50 } else { 1000 }));
                let Some(clock) = clock.upgrade() else { return };
                clock.calibrate();
                if let Some(doubt) = clock.look_at_counter()
                    && let Some(supervisor) = supervisor.upgrade()
                {
                    (supervisor.warn)(doubt.to_owned());
                }
            }
        })?;
        Ok(())
    }

    /// Returns the session's clock.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Returns the session's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the method by which processes are stopped.
    pub fn freeze_kind(&self) -> FreezeKind {
        self.supervisor.freezer.kind()
    }

    /// Adds a host with its own clock. To be called before virtual time begins to run.
    /// [`CommandSpec::host`] selects the host of a program.
    ///
    /// # Errors
    /// Fails if there is no memory for its clock page.
    pub fn add_host(&self, name: &str, options: &HostOptions) -> Result<Arc<Host>, GuestError> {
        let page = PageMapping::new(&self.page_name.to_c_string())?;
        let host = self.clock.add_host(name, page, options);
        self.supervisor.show_dilation(&host);
        let mut hosts = self.hosts.lock();
        hosts.push(Arc::clone(&host));
        Ok(host)
    }

    /// Gives a host at a simulated network a network card with a clock. `stamps` knows when frames
    /// pass the card. Programs that are started afterwards see the card.
    ///
    /// # Errors
    /// Fails if the host has a card already, or the kernel refuses a file.
    pub fn add_card(
        &self,
        host: &Host,
        options: &CardOptions,
        stamps: Arc<dyn FrameStamps>,
    ) -> Result<(), GuestError> {
        let card = Card::new(stamps);
        let card = card.map_err(GuestError::system("making the clock of a network card"))?;
        if !host.set_card(card) {
            let name = host.name();
            let message = format!("host {name} has a network card already");
            return Err(GuestError::Usage(message));
        }
        self.clock.add_card(host, options);
        Ok(())
    }

    /// Returns the host of programs for which none is selected.
    pub fn own_host(&self) -> Arc<Host> {
        let hosts = self.hosts.lock();
        Arc::clone(&hosts[0])
    }

    /// Returns a sentence with the reason why programs see the machine's `/proc/uptime` and
    /// `/proc/stat`; `None` if they see virtual ones.
    pub fn machine_files(&self) -> Option<String> {
        self.time_files.as_ref().err().map(MachineFiles::to_string)
    }

    /// Starts a program in the session. In a paused session the program is stopped before its first
    /// instruction, until the session is resumed.
    pub fn spawn(&self, spec: &CommandSpec) -> Result<Guest, GuestError> {
        let supervisor = Arc::clone(&self.supervisor);
        let host = spec.host.clone().unwrap_or_else(|| self.own_host());
        let _span = debug_span!(
            "launch",
            host = host.log_name(),
            program = spec.name.as_deref(),
            file = spec.argv.first().map(tracing::field::debug),
        )
        .entered();
        let view = self.view(&host);
        let newcomers = || self.supervisor.newcomers.lock();
        let how = Conditions {
            emulates_tsc: self.clock.emulates_tsc(),
            dates_files: self.clock.dates_files(),
            has_card: host.card().is_some(),
            view,
            fails: &|pid| newcomers().retain(|&other| other != pid),
            warn: &self.supervisor.warn,
        };
        // Time does not skip while the program is being started, whichever thread starts it.
        let on_its_way = self.supervisor.starting(host.index());
        let (programs, name) = (Arc::clone(&self.programs), spec.name.clone());
        let launched = launch(spec, &how, move |pid, descriptor| {
            if let Some(name) = name {
                let mut programs = programs.lock();
                programs.push((pid, name));
            }
            supervisor.newcomers.lock().push(pid);
            listener::serve(&Arc::new(Listener::new(descriptor, host)), &supervisor);
        });
        drop(on_its_way);
        match &launched {
            Ok(guest) => debug!(
                pid = guest.pid(),
                virtual_ns = self.clock.now().as_ns(),
                "launched"
            ),
            Err(error) => debug!(%error, "not launched"),
        }
        launched
    }

    /// Creates a cgroup for a process that works for this session but does not run by its clock (a
    /// plant). The process is never stopped; at the end, it is killed with all processes that it
    /// has started. Returns `None` if the session stops its processes by signals.
    ///
    /// # Errors
    /// Fails with the kernel's error, for example if there are too many cgroups.
    pub fn helper_cgroup(&self) -> Result<Option<PathBuf>, GuestError> {
        let made = self.supervisor.freezer.helper();
        made.map_err(GuestError::system("making a cgroup for a helper"))
    }

    /// Returns the view of `/proc/uptime` and `/proc/stat` for a program of `host`; `None` for the
    /// machine's files.
    fn view(&self, host: &Arc<Host>) -> Option<View> {
        let view = self.time_files.as_ref().ok()?.view(host);
        view.map_err(|error| (self.supervisor.warn)(MachineFiles::Refused(error).to_string()))
            .ok()
    }

    /// Stops the clock, then all processes. Returns the virtual time at which the clock stands.
    ///
    /// # Errors
    /// Fails if a process cannot be stopped. All processes are then ended.
    pub fn pause(&self) -> Result<Instant<Virtual>, GuestError> {
        let _span = debug_span!("pause", session = self.name).entered();
        let at = self.pause_now();
        match &at {
            Ok(at) => debug!(virtual_ns = at.as_ns(), "paused"),
            Err(error) => debug!(%error, "not paused"),
        }
        at
    }

    fn pause_now(&self) -> Result<Instant<Virtual>, GuestError> {
        let _change = self.lock();
        let at = self.clock.pause();
        let stopped = self.supervisor.freezer.freeze(PATIENCE);
        self.supervisor.or_end_all(stopped)?;
        Ok(at)
    }

    /// Resumes clock and processes, until the clock shows `until` or the next pause
    /// ([`Instant::FAR_FUTURE`] for no limit). At that instant the clock stops; processes do not.
    pub fn resume_until(&self, until: Instant<Virtual>) -> Result<(), GuestError> {
        self.clock.set_bound(until);
        self.resume()
    }

    /// Resumes clock and processes.
    pub fn resume(&self) -> Result<(), GuestError> {
        // The span ends after the change, so that a slow reader of the log does not delay it.
        let _span = debug_span!("resume", session = self.name).entered();
        let _change = self.lock();
        self.clock.resume();
        self.supervisor.freezer.thaw()
    }

    /// Sets the dilation: wall seconds per virtual second. This also applies to waits in progress.
    pub fn dilate(&self, factor: f64) -> Result<(), GuestError> {
        let _span = debug_span!("dilate", session = self.name, factor).entered();
        let _change = self.lock();
        let was_paused = self.clock.is_paused();
        self.clock.pause();
        let frozen = self.supervisor.freezer.freeze(PATIENCE);
        let frozen = self.supervisor.or_end_all(frozen);
        let hosts = self.hosts.lock().clone();
        if frozen.is_ok() {
            self.supervisor.rebase_cpu_time(&hosts);
        }
        let dilated = self.clock.dilate(factor);
        if dilated.is_ok() {
            hosts
                .iter()
                .for_each(|host| self.supervisor.show_dilation(host));
        }
        if frozen.is_ok() {
            interrupt::interrupt_waiting(
                &self.supervisor.freezer.processes(),
                &self.supervisor.injector.image.wait,
            );
        }
        if !was_paused {
            self.clock.resume();
            self.supervisor.freezer.thaw()?;
        }
        frozen.and(dilated)
    }

    /// Ends requests through the socket that wait for an instant, and waits until all requests are
    /// answered, for at most two seconds. To be called before this process ends, since a request may
    /// itself be the reason why the programs have ended.
    pub fn finish_answers(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.clock.wake();
        let begun = std::time::Instant::now();
        while self.answering.load(Ordering::SeqCst) > 0 && begun.elapsed() < ANSWER_WITHIN {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Prevents time from skipping over the end of this program: time does not skip until the
    /// caller, which waits for the end, has dropped its [`ProgramEnd`](crate::ProgramEnd).
    ///
    /// # Errors
    /// Fails if the kernel has no memory for this.
    pub fn watch_end(&self, guest: &Guest) -> Result<(), GuestError> {
        self.supervisor.watch_end(guest)
    }

    /// Returns true if a program whose end is watched has ended, and the end has not been handled
    /// yet.
    pub fn has_unsettled_end(&self) -> bool {
        self.supervisor.has_unsettled_end()
    }

    /// Begins to skip: while all threads wait, time skips to the next event, but not over a watched
    /// end. `quiet` must return false if something outside the guests is about to affect them:
    /// packets in flight, a program being started, output not read yet. It is called often and must
    /// be quick.
    pub fn skip_while_waiting(&self, quiet: impl Fn() -> bool + Send + Sync + 'static) {
        if self.supervisor.quiet.set(Box::new(quiet)).is_ok() {
            self.set_skipping(true);
        }
    }

    /// Sets the function `ahead` of a component that follows the clock without waiting for it here
    /// ([`Clock::announce`]). If computing takes no time and all threads wait, the session calls it
    /// with an instant. The component then runs ahead of the clock, up to that instant, and no
    /// further than the first instant at which it has data for a program. Before it delivers
    /// anything, it passes the instant reached to the given closure. `ahead` returns false if the
    /// component no longer exists.
    pub fn let_go_ahead(
        &self,
        ahead: impl Fn(Instant<Virtual>, ArrivalCallback) -> bool + Send + Sync + 'static,
    ) {
        // A second call has no effect.
        let _ = self.supervisor.ahead.set(Box::new(ahead));
    }

    /// Makes this session act only in its turns of `order`, which it shares with other sessions.
    /// Computing must take no time in all of them. Call this before time skips; a second call has
    /// no effect.
    pub fn share_order(&self, order: Arc<dyn SharedOrder>) {
        let _ = self.supervisor.shared_order.set(order);
    }

    /// Sets the inode numbers of the session's network namespaces. Time is not to skip while a queue
    /// of their devices holds frames back. Call this before time skips; a second call has no effect.
    pub fn watch_networks(&self, inodes: Vec<u32>) {
        let _ = self.supervisor.networks.set(inodes);
    }

    /// Returns true if time has at no time skipped while a queue in these namespaces held frames
    /// back, as on a link with a rate. The result is false before time skips, if BPF is not
    /// available, and after skipping was switched on again.
    pub fn detects_held_frames(&self) -> bool {
        self.supervisor.detects_held_frames.load(Ordering::Relaxed)
    }

    /// Returns true if work that the kernel has deferred keeps time from skipping: frames that a queue
    /// holds back, softirqs, work items.
    pub(crate) fn is_deferred(&self) -> bool {
        self.supervisor.is_deferred.load(Ordering::Relaxed)
    }

    /// Makes connections keep the congestion control that the kernel assigns. That algorithm must
    /// depend only on acknowledgements, since time skips over the kernel's timers. If a program
    /// requests another one, this is reported.
    pub fn keep_self_clocking(&self) {
        self.supervisor.self_clocking.store(true, Ordering::Relaxed);
    }

    /// Sets the name of the congestion control with CUBIC in virtual time. A program that requests
    /// CUBIC then gets this one on its connections, where [`Self::keep_self_clocking`] applies or
    /// computing takes no time.
    pub fn offer_virtual_cubic(&self, name: &str) {
        // A second call has no effect.
        let _ = self.supervisor.virtual_cubic.set(name.to_owned());
    }

    /// Begins or ends skipping, like [`Self::skip_while_waiting`]. If no `quiet` was set, only the
    /// guests are considered: input that they expect from outside the session may then arrive late
    /// in virtual time. After a call with `on` false has returned, time does not skip.
    pub fn set_skipping(&self, on: bool) {
        let mut skipper = self.skipper.lock();
        if on && skipper.is_none() {
            let supervisor = Arc::downgrade(&self.supervisor);
            let ended = Arc::new(AtomicBool::new(false));
            let its_end = Arc::clone(&ended);
            let skip = move || skip::serve(&supervisor, &its_end);
            let thread = std::thread::Builder::new().name(SKIPPER.into());
            debug!(session = self.name, "skipping begins");
            match thread.spawn(skip) {
                Ok(thread) => *skipper = Some((ended, thread)),
                Err(error) => (self.supervisor.warn)(format!(
                    "cannot start the thread that skips \
                                                              time: {error}"
                )),
            }
        } else if !on && let Some((ended, thread)) = skipper.take() {
            debug!(session = self.name, "skipping ends");
            ended.store(true, Ordering::SeqCst);
            let _ = thread.join();
        }
    }

    /// Makes the session use scheduler events to detect that all threads wait. The cost then
    /// depends on the number of threads that run, not on the number that sleep.
    ///
    /// # Errors
    /// Returns the reason if this is not possible: the session has no cgroup, the kernel lacks BPF,
    /// BTF or a tracepoint, or this process may not load BPF programs.
    pub fn try_events(&self) -> std::io::Result<()> {
        Activity::new(&self.supervisor).map(drop)
    }

    /// Returns true if time skips while all threads wait.
    pub fn is_skipping(&self) -> bool {
        let skipper = self.skipper.lock();
        skipper.is_some()
    }

    /// Returns the first virtual time at which an event may happen without input from outside. All
    /// processes must be stopped.
    pub(crate) fn next_deadline(&self) -> Option<Instant<Virtual>> {
        next_event::next_deadline(&self.supervisor)
    }

    /// Returns the record of the order in which threads were scheduled. It is empty if computing
    /// takes time.
    pub fn order(&self) -> SchedulingRecord {
        self.supervisor.with_order(|order| order.clone())
    }

    /// Returns an explanation of a program's exit status: for 128 + SIGSEGV, if the session is the
    /// cause because signals did not fit onto a thread's alternate stack; for 128 + SIGSYS, if no
    /// report attributes it to a filter of the program.
    pub fn explain_end(&self, status: i32) -> Option<String> {
        if status == 128 + libc::SIGSYS && !self.supervisor.has_end_by_filter() {
            return Some(
                "the program was ended by SIGSYS: by a seccomp filter that was installed \
                 outside of the session (the kernel's log may have `audit: type=1326` with the \
                 call), or by a signal that a process has sent"
                    .to_owned(),
            );
        }
        if status != 128 + libc::SIGSEGV {
            return None;
        }
        let mut log = self.kernel_log.lock();
        let name = log.as_mut()?.overflowed()?;
        Some(format!(
            "signals found no room on an alternate stack (sigaltstack) of {name}: under the clock \
             a call that waits or tells time takes a signal's frame of it; 16 KiB are room for three"
        ))
    }

    /// Returns the calls of programs that were refused or not virtualised, with their counts.
    pub fn unhandled_calls(&self) -> Vec<UnhandledCall> {
        self.supervisor.report.calls()
    }

    /// From now on, executes calls that cannot be virtualised in real time, and reports them,
    /// instead of refusing them.
    pub fn allow_leaks(&self) {
        self.supervisor.allow_leaks.store(true, Relaxed);
    }

    /// Ends every process of the session.
    pub fn kill_all(&self) {
        self.supervisor.freezer.kill_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.supervisor.lock()
    }
}

/// Maximum time for which the end of a session waits for answers.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Starts a thread of the session.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, GuestError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(GuestError::system("starting a thread of the session"))
}

/// Applies changes of the hosts' clocks when they are due, until `ended` is true.
fn serve_hosts(supervisor: &Arc<Supervisor>, ended: &AtomicBool) {
    while !ended.load(Ordering::SeqCst) {
        if supervisor
            .clock
            .wait_for_host(|| ended.load(Ordering::SeqCst))
        {
            supervisor.clock.advance_hosts();
        }
        supervisor.timers.look_again();
        if supervisor.clock.take_sped_up() {
            supervisor.interrupt_soon();
        }
        supervisor.tell_of_steps();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.set_skipping(false);
        self.supervisor.remove_all();
        self.supervisor.timers.close();
        self.clock.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if self.has_socket.load(Relaxed) {
            let _ = std::fs::remove_file(socket_path(&self.name));
        }
        self.reaper.dismiss();
    }
}

/// Checks the page size: in guests, the clock page and the image are 4 KiB apart, and kernels for
/// ARM may have larger pages.
fn check_pages() -> Result<(), GuestError> {
    let bytes = rustix::param::page_size();
    if bytes == timeloom_abi::PAGE_SIZE {
        return Ok(());
    }
    Err(GuestError::Unsupported(format!(
        "this kernel's memory pages have {bytes} bytes; a kernel with pages of 4096 bytes is needed"
    )))
}

fn check_name(name: &str) -> Result<(), GuestError> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
        return Err(GuestError::Usage(format!(
            "`{name}` cannot name a session: use up to 64 letters, digits, `-` and `_`"
        )));
    }
    Ok(())
}
