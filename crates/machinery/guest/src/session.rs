//! One fabric of time: a clock, the processes that live by it, a supervisor.

mod hosts;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::{Clock, ClockOptions, Host, HostOptions, HostTime};
use crate::enter::image::Image;
use crate::enter::inject::Injector;
use crate::enter::launch::{CommandSpec, Conditions, Guest, launch};
use crate::error::GuestError;
use crate::freeze::{FreezeKind, Freezer, cgroup_of};
use crate::leftovers::{Keeper, PageName};
use crate::linux::memory::PageMapping;
use crate::linux::processes;
use crate::register::{Registration, register, release};
use crate::supervise::cpu_time::CpuTime;
use crate::supervise::kick;
use crate::supervise::listener::{self, Context};
use crate::supervise::notify::Listener;
use crate::supervise::report::{Report, UnhandledCall};
use crate::supervise::skip;
use crate::time_files::{self, ProcFiles, TimeFiles, View};
use crate::timers::Timers;

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

/// What a session is doing, for `timeloom query`.
#[derive(Clone, Debug)]
pub struct Status {
    /// The session's name.
    pub name: String,
    /// Virtual time since the session began.
    pub virtual_time: Instant<Virtual>,
    /// CLOCK_REALTIME as guests see it, nanoseconds since 1970.
    pub utc_ns: i64,
    /// Wall time since the session began.
    pub wall: Duration,
    /// Wall time during which the clock stood.
    pub paused_total: Duration,
    /// Whether it stands now.
    pub paused: bool,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// Whether time skips while everything waits.
    pub skipping: bool,
    /// How the own time of each host stands against the session's; of hosts that
    /// have names.
    pub hosts: Vec<HostTime>,
    /// Processes: identifier and name.
    pub processes: Vec<(i32, String)>,
}

/// A running session. Dropping it ends all its processes and removes what it
/// made.
pub struct Session {
    name: String,
    clock: Arc<Clock>,
    context: Arc<Context>,
    /// The first is there from the beginning.
    hosts: Mutex<Vec<Arc<Host>>>,
    page_name: PageName,
    threads: Vec<JoinHandle<()>>,
    /// Says whether anything outside the guests is about to happen to them.
    quiet: OnceLock<QuietCheck>,
    /// The thread that skips, while one does, and what ends it.
    skipper: Mutex<Option<(Arc<AtomicBool>, JoinHandle<()>)>>,
    ended: Arc<AtomicBool>,
    /// Programs that were brought in.
    registered: Mutex<Vec<Registration>>,
    /// Or why there are none.
    time_files: Result<TimeFiles, String>,
    /// Whether the socket of our name is ours.
    pub(crate) has_socket: AtomicBool,
    keeper: Keeper,
}

/// Whether nothing outside the guests is about to happen to them.
type QuietCheck = Box<dyn Fn() -> bool + Send + Sync>;

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
        if crate::control::list_sessions().contains(&options.name) {
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
        let keeper = Keeper::start(&options.name, &freezer, page_name.clone())?;
        let clock = Arc::new(Clock::new(page, &options.clock)?);
        // Of the same name: it says which session a program is in.
        let host_page = PageMapping::new(&page_name.to_c_string())?;
        let host = clock.add_host("", host_page, &HostOptions::default());
        host.page().page().past.set_dilation(options.clock.dilation);
        let context = Arc::new(Context {
            injector: Injector {
                image: Image::new()?,
                emulates_tsc: clock.emulates_tsc(),
            },
            clock: Arc::clone(&clock),
            timers: Timers::new(Arc::clone(&clock)),
            report: Report::default(),
            freezer,
            newcomers: Mutex::default(),
            execs: AtomicUsize::new(0),
            cpu_time: CpuTime::default(),
            allow_leaks: AtomicBool::new(false),
            warn: options.warn,
            change: Mutex::new(()),
            wanting: AtomicUsize::new(0),
        });
        let mut session = Self {
            name: options.name,
            clock,
            context,
            hosts: Mutex::new(vec![host]),
            page_name,
            threads: Vec::new(),
            quiet: OnceLock::new(),
            skipper: Mutex::default(),
            ended: Arc::default(),
            registered: Mutex::default(),
            time_files: match options.clock.proc {
                ProcFiles::Virtual => TimeFiles::start(),
                ProcFiles::Machine => Err(AS_ASKED.into()),
            },
            has_socket: AtomicBool::new(false),
            keeper,
        };
        session.start_threads();
        if options.clock.paused {
            session.context.freezer.freeze(PATIENCE)?;
        }
        Ok(session)
    }

    fn start_threads(&mut self) {
        let context = Arc::clone(&self.context);
        self.threads
            .push(std::thread::spawn(move || context.timers.serve()));
        let (context, ended) = (Arc::clone(&self.context), Arc::clone(&self.ended));
        self.threads
            .push(std::thread::spawn(move || serve_hosts(&context, &ended)));
        let clock = Arc::downgrade(&self.clock);
        // Ends by itself when the session is gone; nobody waits for it.
        std::thread::spawn(move || {
            for turn in 0u32.. {
                // Soon at first: the start's calibration was a short one.
                std::thread::sleep(StdDuration::from_millis(if turn < 5 { 50 } else { 1000 }));
                let Some(clock) = clock.upgrade() else { return };
                clock.calibrate();
            }
        });
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
        self.context.freezer.kind()
    }

    /// A host more, with a clock of its own; to be called before virtual time
    /// begins to run. Programs are started on it by [`CommandSpec::host`].
    ///
    /// # Errors
    /// When there is no memory for its clock page.
    pub fn add_host(&self, name: &str, options: &HostOptions) -> Result<Arc<Host>, GuestError> {
        let page = PageMapping::new(&self.page_name.to_c_string())?;
        let host = self.clock.add_host(name, page, options);
        self.show_dilation(&host);
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
    pub fn machine_files(&self) -> Option<&str> {
        self.time_files.as_ref().err().map(String::as_str)
    }

    /// Starts a program under the clock. In a paused session it stands before
    /// its first instruction until the session is resumed.
    pub fn spawn(&self, spec: &CommandSpec) -> Result<Guest, GuestError> {
        let context = Arc::clone(&self.context);
        let host = spec.host.clone().unwrap_or_else(|| self.own_host());
        let view = self.view(&host);
        let how = Conditions {
            emulates_tsc: self.clock.emulates_tsc(),
            view,
            warn: &self.context.warn,
        };
        launch(spec, &how, move |pid, descriptor| {
            context
                .newcomers
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .push(pid);
            let listener = Arc::new(Listener::new(descriptor, host));
            std::thread::spawn(move || listener::serve(&listener, &context));
        })
    }

    /// How a program of `host` sees the files that tell time.
    fn view(&self, host: &Arc<Host>) -> Option<View> {
        let view = self.time_files.as_ref().ok()?.view(host);
        view.map_err(|error| self.warn(time_files::explain(&error)))
            .ok()
    }

    /// Makes the clock stand, then stops all processes. Returns the instant at
    /// which all stand.
    pub fn pause(&self) -> Result<Instant<Virtual>, GuestError> {
        let _change = self.lock();
        let at = self.clock.pause();
        self.context.freezer.freeze(PATIENCE)?;
        Ok(at)
    }

    /// Lets clock and processes go on.
    pub fn resume(&self) -> Result<(), GuestError> {
        let _change = self.lock();
        self.clock.resume();
        self.context.freezer.thaw()
    }

    /// Changes the dilation, for blocked threads as well.
    pub fn dilate(&self, factor: f64) -> Result<(), GuestError> {
        let _change = self.lock();
        let was_paused = self.clock.is_paused();
        self.clock.pause();
        let frozen = self.context.freezer.freeze(PATIENCE);
        let hosts = self.hosts.lock().unwrap_or_else(|e| e.into_inner()).clone();
        if frozen.is_ok() {
            self.rebase_cpu_time(&hosts);
        }
        let dilated = self.clock.dilate(factor);
        if dilated.is_ok() {
            hosts.iter().for_each(|host| self.show_dilation(host));
        }
        if frozen.is_ok() {
            kick::kick_waiting(
                &self.context.freezer.processes(),
                &self.context.injector.image.wait,
            );
        }
        if !was_paused {
            self.clock.resume();
            self.context.freezer.thaw()?;
        }
        frozen.and(dilated)
    }

    /// From now on, while everything waits, time skips to the next thing that
    /// happens. `quiet` says whether anything outside the guests is about to
    /// happen to them: packets in flight, a program being started. It is asked
    /// often and must be quick.
    pub fn skip_while_waiting(self: &Arc<Self>, quiet: impl Fn() -> bool + Send + Sync + 'static) {
        if self.quiet.set(Box::new(quiet)).is_ok() {
            self.set_skipping(true);
        }
    }

    /// Begins or ends skipping, as [`Self::skip_while_waiting`]. Where nobody
    /// said what else is about to happen, only the guests count: what they wait
    /// for from outside the session comes late, or too late. When this returns,
    /// a time that is not to skip does not.
    pub fn set_skipping(self: &Arc<Self>, on: bool) {
        let mut skipper = self.skipper.lock().unwrap_or_else(|e| e.into_inner());
        if on && skipper.is_none() {
            let (session, ended) = (Arc::downgrade(self), Arc::new(AtomicBool::new(false)));
            let seen = Arc::clone(&ended);
            let thread = std::thread::spawn(move || skip::serve(&session, &seen));
            *skipper = Some((ended, thread));
        } else if !on && let Some((ended, thread)) = skipper.take() {
            ended.store(true, Ordering::SeqCst);
            let _ = thread.join();
        }
    }

    /// Whether time skips while everything waits.
    pub fn is_skipping(&self) -> bool {
        let skipper = self.skipper.lock().unwrap_or_else(|e| e.into_inner());
        skipper.is_some()
    }

    /// Keeps clock and processes from being changed meanwhile, if nobody does.
    pub(crate) fn try_change(&self) -> Option<MutexGuard<'_, ()>> {
        self.context.change.try_lock().ok()
    }

    /// Does `work` while the processes stand; it is told those that go on
    /// afterwards. The clock is not touched; the caller holds [`Self::try_change`].
    pub(crate) fn with_guests_stopped(&self, work: impl FnOnce(&[i32])) -> Result<(), GuestError> {
        let frozen = self.context.freezer.freeze(PATIENCE);
        if frozen.is_ok() {
            work(&self.context.freezer.processes_not_held());
        }
        self.context.freezer.thaw()?;
        frozen
    }

    /// Whether a program is on its way in.
    pub(crate) fn is_starting_one(&self) -> bool {
        self.context.is_starting_one()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        // One who waits for the lock sleeps, but is about to do something.
        self.context.wanting.load(Ordering::SeqCst) == 0
            && !self.is_starting_one()
            && self.quiet.get().is_none_or(|quiet| quiet())
    }

    pub(crate) fn warn(&self, text: String) {
        (self.context.warn)(text);
    }

    /// The processes of hosts that are not paused by themselves.
    pub(crate) fn processes_not_held(&self) -> Vec<i32> {
        self.context.freezer.processes_not_held()
    }

    /// Where threads stand that wait in virtual time.
    pub(crate) fn wait_range(&self) -> &std::ops::RangeInclusive<u64> {
        &self.context.injector.image.wait
    }

    /// What the session is doing.
    pub fn status(&self) -> Status {
        let pids = self.context.freezer.processes();
        let (now, mut hosts) = self.clock.host_times();
        hosts.retain(|time| !time.host.name().is_empty());
        Status {
            name: self.name.clone(),
            virtual_time: now,
            utc_ns: now.as_ns() + self.clock.utc_offset().as_ns(),
            wall: self.clock.wall_elapsed(),
            paused_total: self.clock.paused_total(),
            paused: self.clock.is_paused(),
            dilation: self.clock.dilation(),
            skipping: self.is_skipping(),
            hosts,
            processes: pids
                .into_iter()
                .map(|pid| (pid, processes::name(pid)))
                .collect(),
        }
    }

    /// Brings a running process into the session, with all its threads. Its
    /// clocks show the session's time from then on, until [`Self::unregister`].
    ///
    /// # Errors
    /// When there is no such process, it is in a session already, or it may
    /// not be attached to.
    pub fn register(&self, pid: i32) -> Result<(), GuestError> {
        if self.clock.emulates_tsc() {
            return Err(GuestError::Usage(
                "a session that emulates the time-stamp counter cannot bring in a running program, whose handler of SIGSEGV is its own; start the program in the session, or use `--tsc native`".into(),
            ));
        }
        let _change = self.lock();
        let mut registered = self.registered.lock().unwrap_or_else(|e| e.into_inner());
        registered.retain(|registration| !registration.is_over());
        let tag = self.page_name.image_name(pid);
        let home = cgroup_of(pid);
        let context = &self.context;
        let name = std::ffi::CString::new(tag.as_str()).expect("no zero byte");
        let image = context.injector.image.copy(&name)?;
        let its_image = image
            .try_clone()
            .map_err(GuestError::system("duplicating a descriptor"))?;
        let host = self.own_host();
        let its_host = Arc::clone(&host);
        let mut listening = None;
        let serve = |descriptor| {
            let listener = Arc::new(Listener::registered(descriptor, its_host, its_image)?);
            listening = Some(Arc::clone(&listener));
            let context = Arc::clone(context);
            std::thread::spawn(move || listener::serve(&listener, &context));
            Ok(())
        };
        let done = register(
            &context.injector,
            (host.page(), &image),
            pid,
            serve,
            |pid| context.freezer.adopt(pid, host.index()),
        );
        // Also when it could not be adopted: it is on our clock then.
        if let Some(listener) = listening {
            registered.push(Registration {
                pid,
                tag,
                listener,
                home,
            });
        }
        done
    }

    /// Lets a program go that [`Self::register`] brought in, with all that it has
    /// started since: its clocks are the machine's again, what is left of its waits
    /// and timers is left in real time, and it outlives the session.
    ///
    /// # Errors
    /// When it was not brought in; when it cannot be stopped; when something of it
    /// could not be handed back.
    pub fn unregister(&self, pid: i32) -> Result<(), GuestError> {
        let _change = self.lock();
        let mut registered = self.registered.lock().unwrap_or_else(|e| e.into_inner());
        let index = registered.iter().position(|one| one.pid == pid);
        let Some(index) = index else {
            return Err(GuestError::Usage(format!(
                "process {pid} was not brought into this session by `timeloom register`"
            )));
        };
        let result = release(&self.context, &registered[index]);
        if registered[index].is_released() {
            registered.swap_remove(index);
        }
        result
    }

    /// Calls that programs made and that are not virtualised yet.
    pub fn unhandled_calls(&self) -> Vec<UnhandledCall> {
        self.context.report.calls()
    }

    /// From now on, what cannot be virtualised is done natively and reported
    /// instead of refused.
    pub fn allow_leaks(&self) {
        self.context.allow_leaks.store(true, Relaxed);
    }

    /// Ends every process of the session.
    pub fn kill_all(&self) {
        self.context.freezer.kill_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.context.lock()
    }
}

/// Lets the hosts' clocks change when they change by themselves, until `ended`.
fn serve_hosts(context: &Arc<Context>, ended: &AtomicBool) {
    while !ended.load(Ordering::SeqCst) {
        if context.clock.wait_for_host(|| ended.load(Ordering::SeqCst)) {
            context.clock.advance_hosts();
        }
        context.timers.look_again();
        if context.clock.take_sped_up() {
            context.kick_soon();
        }
        for host in context.clock.take_stepped() {
            context.clock_was_set(&host);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.context.freezer.remove();
        self.context.timers.close();
        self.clock.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if self.has_socket.load(Relaxed) {
            let _ = std::fs::remove_file(crate::control::socket_path(&self.name));
        }
        self.keeper.dismiss();
    }
}

/// Clock page and image lie 4 KiB apart in guests; kernels for ARM may have larger
/// pages.
fn check_pages() -> Result<(), GuestError> {
    // SAFETY: no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if usize::try_from(bytes) == Ok(timeloom_page::PAGE_SIZE) {
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

const AS_ASKED: &str =
    "/proc/uptime and /proc/stat show the machine's uptime and boot time, as asked for";

/// How long a process may take to stop before that counts as a failure.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(10);
