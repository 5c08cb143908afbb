//! One fabric of time: a clock, the processes that live by it, a supervisor.

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

/// How a session is made.
pub struct SessionOptions {
    /// Names the session for `timeloom ps` and others: letters, digits, `-`, `_`.
    pub name: String,
    /// How its clock starts.
    pub clock: ClockOptions,
    /// Called with messages for the user (a call that is not virtualised, a
    /// program that could not be prepared).
    pub warn: Box<dyn Fn(String) + Send + Sync>,
}

/// A running session. Dropping it ends all its processes and removes what it
/// made.
pub struct Session {
    name: String,
    clock: Arc<Clock>,
    supervisor: Arc<Supervisor>,
    /// The first is there from the beginning.
    hosts: Mutex<Vec<Arc<Host>>>,
    page_name: PageName,
    threads: Vec<JoinHandle<()>>,
    /// The thread that skips, while one does, and what ends it.
    skipper: Mutex<Option<(Arc<AtomicBool>, JoinHandle<()>)>>,
    ended: Arc<AtomicBool>,
    /// Programs that were started under a name, by the number of their first process.
    programs: Arc<Mutex<Vec<(i32, String)>>>,
    /// Programs that were brought in.
    registered: Mutex<Vec<Registration>>,
    /// What the kernel has said since the session began, where that may be read.
    kernel_log: Mutex<Option<KernelLog>>,
    /// Or why there are none.
    time_files: Result<TimeFiles, MachineFiles>,
    /// Whether the socket of our name is ours.
    pub(crate) has_socket: AtomicBool,
    /// How many requests through it are being answered.
    pub(crate) answering: Arc<AtomicUsize>,
    reaper: Reaper,
}

impl Session {
    /// Makes the clock and everything around it; runs nothing yet.
    ///
    /// # Errors
    /// A bad name or dilation; a machine without memfd or seccomp listeners, or
    /// with pages of another size than 4 KiB.
    pub fn new(options: SessionOptions) -> Result<Self, GuestError> {
        check_name(&options.name)?;
        check_pages()?;
        // All that is made below is found by this name, also at its removal:
        // two sessions of one name would end each other's programs.
        // (Where nobody can be found safely, `serve` says so.)
        if list_sessions().is_ok_and(|others| others.contains(&options.name)) {
            return Err(GuestError::Usage(format!(
                "a session named `{}` is already running",
                options.name
            )));
        }
        let page_name = PageName::new(&options.name);
        // First: by our mapping of the page others see that the session lives.
        let page = Arc::new(PageMapping::new(&page_name.to_c_string())?);
        let freezer = Freezer::new(&options.name, &page_name)?;
        // Early, while this process has few threads: it forks.
        let reaper = Reaper::start(&options.name, &freezer, page_name.clone())?;
        let clock = Arc::new(Clock::new(page, &options.clock)?);
        // Of the same name: it says which session a program is in.
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
        // Ends by itself when the session is gone; nobody waits for it.
        thread("calibration", move || {
            for turn in 0u32.. {
                // Soon at first: the start's calibration was a short one.
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

    /// The session's clock.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The session's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How processes are stopped.
    pub fn freeze_kind(&self) -> FreezeKind {
        self.supervisor.freezer.kind()
    }

    /// A host more, with a clock of its own; to be called before virtual time
    /// begins to run. Programs are started on it by [`CommandSpec::host`].
    ///
    /// # Errors
    /// When there is no memory for its clock page.
    pub fn add_host(&self, name: &str, options: &HostOptions) -> Result<Arc<Host>, GuestError> {
        let page = PageMapping::new(&self.page_name.to_c_string())?;
        let host = self.clock.add_host(name, page, options);
        self.supervisor.show_dilation(&host);
        let mut hosts = self.hosts.lock().unwrap_or_else(|e| e.into_inner());
        hosts.push(Arc::clone(&host));
        Ok(host)
    }

    /// The host that programs are on unless said otherwise.
    pub fn own_host(&self) -> Arc<Host> {
        let hosts = self.hosts.lock().unwrap_or_else(|e| e.into_inner());
        Arc::clone(&hosts[0])
    }

    /// In a sentence, why `/proc/uptime` and `/proc/stat` are the machine's here, if
    /// they are.
    pub fn machine_files(&self) -> Option<String> {
        self.time_files.as_ref().err().map(MachineFiles::to_string)
    }

    /// Starts a program under the clock. In a paused session it stands before
    /// its first instruction until the session is resumed.
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
        // Time does not skip, whoever it is that has it started.
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

    /// A new cgroup for a process that works for this session without living by its clock
    /// (a plant): it is never stopped, and is killed at the end with all that it started.
    /// None where processes are stopped by signals.
    ///
    /// # Errors
    /// The kernel's: too many cgroups, for one.
    pub fn helper_cgroup(&self) -> Result<Option<PathBuf>, GuestError> {
        let made = self.supervisor.freezer.helper();
        made.map_err(GuestError::system("making a cgroup for a helper"))
    }

    /// How a program of `host` sees the files that tell time.
    fn view(&self, host: &Arc<Host>) -> Option<View> {
        let view = self.time_files.as_ref().ok()?.view(host);
        view.map_err(|error| (self.supervisor.warn)(MachineFiles::Refused(error).to_string()))
            .ok()
    }

    /// Makes the clock stand, then stops all processes. Returns the instant at
    /// which all stand.
    ///
    /// # Errors
    /// When one cannot be stopped: then all are ended.
    pub fn pause(&self) -> Result<Instant<Virtual>, GuestError> {
        let _change = self.lock();
        let at = self.clock.pause();
        let stopped = self.supervisor.freezer.freeze(PATIENCE);
        self.supervisor.or_end_all(stopped)?;
        Ok(at)
    }

    /// Lets clock and processes go on.
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

    /// To be called before the process ends: who asked through the socket is still told
    /// what came of it. A request may itself be why the programs have ended. Not for
    /// longer than two seconds: one that still waits for something is never answered.
    pub fn finish_answers(&self) {
        let begun = std::time::Instant::now();
        while self.answering.load(Ordering::SeqCst) > 0 && begun.elapsed() < ANSWER_WITHIN {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// From now on time does not skip over the end of this program: not before the
    /// caller, who waits for it, has let go of its [`Ended`](crate::Ended).
    pub fn watch_end(&self, guest: &Guest) {
        self.supervisor.watch_end(guest);
    }

    /// Whether a program has ended of those whose end is watched, and that is not
    /// settled yet.
    pub fn has_unsettled_end(&self) -> bool {
        self.supervisor.has_unsettled_end()
    }

    /// From now on, while everything waits, time skips to the next thing that
    /// happens, over no end that is watched. `quiet` says whether
    /// anything outside the guests is about to happen to them: packets in flight, a
    /// program being started, output not read yet. It is asked often and must be quick.
    pub fn skip_while_waiting(&self, quiet: impl Fn() -> bool + Send + Sync + 'static) {
        if self.supervisor.quiet.set(Box::new(quiet)).is_ok() {
            self.set_skipping(true);
        }
    }

    /// Where computing takes no time, what follows the clock without waiting for it here
    /// ([`Clock::announce`]) goes ahead of it while everybody waits: `ahead` lets it do
    /// so, up to an instant and no further than the first at which it has something for a
    /// program, and tells the closure how far it is before it hands that out. It is false
    /// when there is nobody to do so any more.
    pub fn let_go_ahead(
        &self,
        ahead: impl Fn(Instant<Virtual>, Arrive) -> bool + Send + Sync + 'static,
    ) {
        // Who comes second changes nothing.
        let _ = self.supervisor.ahead.set(Box::new(ahead));
    }

    /// Makes connections keep the congestion control that the kernel assigns: one that depends on
    /// acknowledgements alone, since time skips over the kernel's timers. Requests of programs for
    /// another one are reported.
    pub fn keep_self_clocking(&self) {
        self.supervisor.self_clocking.store(true, Ordering::Relaxed);
    }

    /// Begins or ends skipping, as [`Self::skip_while_waiting`]. Where nobody
    /// said what else is about to happen, only the guests count: what they wait
    /// for from outside the session comes late, or too late. When this returns,
    /// a time that is not to skip does not.
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

    /// Whether time skips while everything waits.
    pub fn is_skipping(&self) -> bool {
        let skipper = self.skipper.lock().unwrap_or_else(|e| e.into_inner());
        skipper.is_some()
    }

    /// The first instant at which something may happen by itself, while all
    /// processes stand.
    pub(crate) fn next_deadline(&self) -> Option<Instant<Virtual>> {
        next_event::next_deadline(&self.supervisor)
    }

    /// What is to be said of the order in which threads had their turns, where computing
    /// takes no time.
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

    /// Calls that programs made and that are not virtualised yet.
    pub fn unhandled_calls(&self) -> Vec<UnhandledCall> {
        self.supervisor.report.calls()
    }

    /// From now on, what cannot be virtualised is done natively and reported
    /// instead of refused.
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

/// How long an end waits for answers.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// A thread of the session.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, GuestError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(GuestError::system("starting a thread of the session"))
}

/// Lets the hosts' clocks change when they change by themselves, until `ended`.
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

/// Clock page and image lie 4 KiB apart in guests; kernels for ARM may have larger
/// pages.
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
