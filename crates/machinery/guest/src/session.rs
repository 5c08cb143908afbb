//! Session: a clock, the processes that run by it, a supervisor.

mod agreed;
mod hosts;
mod registered;
mod status;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use timeloom_time::{Instant, Virtual};

use crate::clock::{Clock, ClockOptions, Host, HostOptions, ProcFiles};
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
use crate::supervise::kick;
use crate::supervise::listener;
use crate::supervise::next_event;
use crate::supervise::notify::Listener;
use crate::supervise::report::UnhandledCall;
use crate::supervise::skip;
use crate::supervise::supervisor::{Arrive, PATIENCE, Supervisor};
use crate::supervise::turns::Order;
use crate::time_files::{MachineFiles, TimeFiles, View};
pub use status::{Process, Status};

/// Options of a session.
pub struct SessionOptions {
    /// Name of the session for `timeloom ps` and others: letters, digits, `-`, `_`.
    pub name: String,
    /// Options of its clock.
    pub clock: ClockOptions,
    /// Called with messages for the user (a call that is not virtualised, a
    /// program that could not be prepared).
    pub warn: Box<dyn Fn(String) + Send + Sync>,
}

/// Running session. Dropping it ends all its processes and removes its objects.
pub struct Session {
    name: String,
    clock: Arc<Clock>,
    supervisor: Arc<Supervisor>,
    /// The first host exists from the beginning.
    hosts: Mutex<Vec<Arc<Host>>>,
    page_name: PageName,
    threads: Vec<JoinHandle<()>>,
    /// Thread that skips, if there is one, and the flag that ends it.
    skipper: Mutex<Option<(Arc<AtomicBool>, JoinHandle<()>)>>,
    ended: Arc<AtomicBool>,
    /// Programs that were started under a name, by the number of their first process.
    programs: Arc<Mutex<Vec<(i32, String)>>>,
    /// Attached programs.
    registered: Mutex<Vec<Registration>>,
    /// Messages of the kernel since the session began, if they may be read.
    kernel_log: Mutex<Option<KernelLog>>,
    /// Error with the reason if there are none.
    time_files: Result<TimeFiles, MachineFiles>,
    /// True if the socket of our name is ours.
    pub(crate) has_socket: AtomicBool,
    /// Number of requests through it that are being answered.
    pub(crate) answering: Arc<AtomicUsize>,
    reaper: Reaper,
}

impl Session {
    /// Makes the clock and the supervisor's objects; runs no program yet.
    ///
    /// # Errors
    /// Fails for a bad name or dilation, and on a machine without memfd or seccomp listeners, or
    /// with pages of another size than 4 KiB.
    pub fn new(options: SessionOptions) -> Result<Self, GuestError> {
        check_name(&options.name)?;
        check_pages()?;
        // All objects made below are found by this name, also at their removal: two sessions of one
        // name would end each other's programs. (If sessions cannot be listed safely, `serve`
        // reports it.)
        if list_sessions().is_ok_and(|others| others.contains(&options.name)) {
            return Err(GuestError::Usage(format!(
                "a session named `{}` is already running",
                options.name
            )));
        }
        let page_name = PageName::new(&options.name);
        // First: our mapping of the page shows others that the session lives.
        let page = Arc::new(PageMapping::new(&page_name.to_c_string())?);
        let freezer = Freezer::new(&options.name, &page_name)?;
        // Early, while this process has few threads: it forks.
        let reaper = Reaper::start(&options.name, &freezer, page_name.clone())?;
        let clock = Arc::new(Clock::new(page, &options.clock)?);
        // Of the same name, which identifies the session of a program.
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
        // Ends by itself when the session is gone, without being joined.
        thread("calibration", move || {
            for turn in 0u32.. {
                // Frequently at first: the start's calibration was a short one.
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

    /// Adds a host with a clock of its own; to be called before virtual time begins to run.
    /// Programs are started on it by [`CommandSpec::host`].
    ///
    /// # Errors
    /// Fails if there is no memory for its clock page.
    pub fn add_host(&self, name: &str, options: &HostOptions) -> Result<Arc<Host>, GuestError> {
        let page = PageMapping::new(&self.page_name.to_c_string())?;
        let host = self.clock.add_host(name, page, options);
        self.supervisor.show_dilation(&host);
        let mut hosts = self.hosts.lock().unwrap_or_else(|e| e.into_inner());
        hosts.push(Arc::clone(&host));
        Ok(host)
    }

    /// Returns the default host of programs.
    pub fn own_host(&self) -> Arc<Host> {
        let hosts = self.hosts.lock().unwrap_or_else(|e| e.into_inner());
        Arc::clone(&hosts[0])
    }

    /// Returns, as a sentence, the reason why `/proc/uptime` and `/proc/stat` are the machine's
    /// here, if they are.
    pub fn machine_files(&self) -> Option<String> {
        self.time_files.as_ref().err().map(MachineFiles::to_string)
    }

    /// Starts a program under the clock. In a paused session it is stopped before its first
    /// instruction until the session is resumed.
    pub fn spawn(&self, spec: &CommandSpec) -> Result<Guest, GuestError> {
        let supervisor = Arc::clone(&self.supervisor);
        let host = spec.host.clone().unwrap_or_else(|| self.own_host());
        let view = self.view(&host);
        let newcomers = || {
            let newcomers = self.supervisor.newcomers.lock();
            newcomers.unwrap_or_else(|e| e.into_inner())
        };
        let how = Conditions {
            emulates_tsc: self.clock.emulates_tsc(),
            dates_files: self.clock.dates_files(),
            view,
            fails: &|pid| newcomers().retain(|&other| other != pid),
            warn: &self.supervisor.warn,
        };
        // Time does not skip meanwhile, whichever thread starts the program.
        let on_its_way = self.supervisor.starting(host.index());
        let (programs, name) = (Arc::clone(&self.programs), spec.name.clone());
        let launched = launch(spec, &how, move |pid, descriptor| {
            if let Some(name) = name {
                let mut programs = programs.lock().unwrap_or_else(|e| e.into_inner());
                programs.push((pid, name));
            }
            supervisor
                .newcomers
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .push(pid);
            listener::serve(&Arc::new(Listener::new(descriptor, host)), &supervisor);
        });
        drop(on_its_way);
        launched
    }

    /// Makes a cgroup for a process that works for this session but does not run by its clock (a
    /// plant): it is never stopped, and is killed at the end with all processes that it started.
    /// `None` if processes are stopped by signals.
    ///
    /// # Errors
    /// Fails with the kernel's errors, for example if there are too many cgroups.
    pub fn helper_cgroup(&self) -> Result<Option<PathBuf>, GuestError> {
        let made = self.supervisor.freezer.helper();
        made.map_err(GuestError::system("making a cgroup for a helper"))
    }

    /// Returns the view of the files with time information for a program of `host`.
    fn view(&self, host: &Arc<Host>) -> Option<View> {
        let view = self.time_files.as_ref().ok()?.view(host);
        view.map_err(|error| (self.supervisor.warn)(MachineFiles::Refused(error).to_string()))
            .ok()
    }

    /// Stops the clock, then all processes. Returns the instant at which all are stopped.
    ///
    /// # Errors
    /// Fails if one cannot be stopped: then all are ended.
    pub fn pause(&self) -> Result<Instant<Virtual>, GuestError> {
        let _change = self.lock();
        let at = self.clock.pause();
        let stopped = self.supervisor.freezer.freeze(PATIENCE);
        self.supervisor.or_end_all(stopped)?;
        Ok(at)
    }

    /// Resumes clock and processes.
    pub fn resume(&self) -> Result<(), GuestError> {
        let _change = self.lock();
        self.clock.resume();
        self.supervisor.freezer.thaw()
    }

    /// Changes the dilation, for blocked threads as well.
    pub fn dilate(&self, factor: f64) -> Result<(), GuestError> {
        let _change = self.lock();
        let was_paused = self.clock.is_paused();
        self.clock.pause();
        let frozen = self.supervisor.freezer.freeze(PATIENCE);
        let frozen = self.supervisor.or_end_all(frozen);
        let hosts = self.hosts.lock().unwrap_or_else(|e| e.into_inner()).clone();
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
            kick::kick_waiting(
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

    /// Waits until requests through the socket are answered; to be called before the process ends.
    /// A request may itself be why the programs have ended. Waits for at most two seconds: a
    /// request that still waits for something is never answered.
    pub fn finish_answers(&self) {
        let begun = std::time::Instant::now();
        while self.answering.load(Ordering::SeqCst) > 0 && begun.elapsed() < ANSWER_WITHIN {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Prevents skipping over the end of this program: time does not skip before the caller, which
    /// waits for the end, has dropped its [`Ended`](crate::Ended).
    pub fn watch_end(&self, guest: &Guest) {
        self.supervisor.watch_end(guest);
    }

    /// Returns true if a program whose end is watched has ended, and the end is not settled yet.
    pub fn has_unsettled_end(&self) -> bool {
        self.supervisor.has_unsettled_end()
    }

    /// Starts skipping: while all threads wait, time skips to the next event, but over no watched
    /// end. `quiet` returns false if something outside the guests is about to happen to them:
    /// packets in flight, a program being started, output not read yet. It is called often and must
    /// be quick.
    pub fn skip_while_waiting(&self, quiet: impl Fn() -> bool + Send + Sync + 'static) {
        if self.supervisor.quiet.set(Box::new(quiet)).is_ok() {
            self.set_skipping(true);
        }
    }

    /// Sets `ahead`, by which a component that follows the clock without waiting for it here
    /// ([`Clock::announce`]) runs ahead of it while all threads wait and computing takes no time:
    /// up to an instant, and no further than the first at which it has something for a program. It
    /// passes the instant reached to the closure before it delivers anything. It returns false if
    /// there is no such component any more.
    pub fn let_go_ahead(
        &self,
        ahead: impl Fn(Instant<Virtual>, Arrive) -> bool + Send + Sync + 'static,
    ) {
        // A second call has no effect.
        let _ = self.supervisor.ahead.set(Box::new(ahead));
    }

    /// Makes connections keep the congestion control that the kernel assigns: one that depends on
    /// acknowledgements alone, since time skips over the kernel's timers. Requests of programs for
    /// another one are reported.
    pub fn keep_self_clocking(&self) {
        self.supervisor.self_clocking.store(true, Ordering::Relaxed);
    }

    /// Gives connections whose programs request CUBIC the congestion control of this name instead,
    /// where [`Self::keep_self_clocking`] applies or computing takes no time. It is CUBIC in
    /// virtual time.
    pub fn offer_virtual_cubic(&self, name: &str) {
        // A second call has no effect.
        let _ = self.supervisor.virtual_cubic.set(name.to_owned());
    }

    /// Begins or ends skipping, like [`Self::skip_while_waiting`]. If no `quiet` was set, only the
    /// guests are considered: input that they expect from outside the session comes late, or too
    /// late. After the return with `on` false, time does not skip.
    pub fn set_skipping(&self, on: bool) {
        let mut skipper = self.skipper.lock().unwrap_or_else(|e| e.into_inner());
        if on && skipper.is_none() {
            let supervisor = Arc::downgrade(&self.supervisor);
            let ended = Arc::new(AtomicBool::new(false));
            let its_end = Arc::clone(&ended);
            let skip = move || skip::serve(&supervisor, &its_end);
            match std::thread::Builder::new().spawn(skip) {
                Ok(thread) => *skipper = Some((ended, thread)),
                Err(error) => (self.supervisor.warn)(format!("no thread to skip: {error}")),
            }
        } else if !on && let Some((ended, thread)) = skipper.take() {
            ended.store(true, Ordering::SeqCst);
            let _ = thread.join();
        }
    }

    /// Checks if time can skip by scheduler events, at a cost that depends on the number of threads
    /// that run, instead of scanning all sleeping threads.
    ///
    /// # Errors
    /// Returns the reason if it cannot: the session has no cgroup, the kernel lacks BPF, BTF or a
    /// tracepoint, or this process may not load BPF programs.
    pub fn try_events(&self) -> std::io::Result<()> {
        Activity::new(&self.supervisor).map(drop)
    }

    /// Returns true if time skips while all threads wait.
    pub fn is_skipping(&self) -> bool {
        let skipper = self.skipper.lock().unwrap_or_else(|e| e.into_inner());
        skipper.is_some()
    }

    /// Returns the first instant at which something may happen by itself, while all processes are
    /// stopped.
    pub(crate) fn next_deadline(&self) -> Option<Instant<Virtual>> {
        next_event::next_deadline(&self.supervisor)
    }

    /// Returns a description of the order in which threads were scheduled, if computing takes no
    /// time.
    pub fn order(&self) -> Order {
        self.supervisor.with_order(|order| order.clone())
    }

    /// Explains an exit status of a program: 128 + SIGSEGV if the cause is the session, whose
    /// signals found no room on a thread's alternate stack; 128 + SIGSYS if no report attributes it
    /// to a filter of the program's own.
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
        let mut log = self.kernel_log.lock().unwrap_or_else(|e| e.into_inner());
        let name = log.as_mut()?.overflowed()?;
        Some(format!(
            "signals found no room on an alternate stack (sigaltstack) of {name}: under the clock \
             a call that waits or tells time takes a signal's frame of it; 16 KiB are room for three"
        ))
    }

    /// Returns the calls made by programs that are not virtualised yet.
    pub fn unhandled_calls(&self) -> Vec<UnhandledCall> {
        self.supervisor.report.calls()
    }

    /// Executes calls that cannot be virtualised natively from now on, and reports them, instead of
    /// refusing them.
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

/// Maximum wait for answers at the end.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Starts a thread of the session.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, GuestError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(GuestError::system("starting a thread of the session"))
}

/// Applies spontaneous changes of the hosts' clocks when they are due, until `ended`.
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
            supervisor.kick_soon();
        }
        supervisor.tell_of_steps();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.set_skipping(false);
        self.supervisor.freezer.remove();
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

/// Checks the page size: clock page and image lie 4 KiB apart in guests; kernels for ARM may have
/// larger pages.
fn check_pages() -> Result<(), GuestError> {
    let bytes = rustix::param::page_size();
    if bytes == timeloom_page::PAGE_SIZE {
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
