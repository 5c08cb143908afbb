//! A thread for each run that a page shows. It reads the run's directory and asks its session, four
//! times a second, and ends when no page shows the run any more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use timeloom_guest::{Request, StatusText, Watching, connect};
use timeloom_results::{
    EventRow, LabelRow, Library, Outcome, ResultsError, RunDirectory, SignalRow, Tail,
};
use tokio::sync::watch;

use super::session;
use super::store::Store;
use super::view::{CheckView, ClockView, HostView, MOST_ITEMS, RunView, bounded, seconds};

/// Runs below a directory, and those that pages show.
#[derive(Debug)]
pub(crate) struct Watchers {
    pub(crate) library: Library,
    /// Runs that pages show, by name.
    shown: Mutex<HashMap<String, Weak<Watched>>>,
}

/// Run that pages show. Its thread ends when the last of them drops it.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) directory: RunDirectory,
    store: Mutex<Store>,
    /// Number of changes; a page that was slow sees the last one only.
    changes: watch::Sender<u64>,
}

/// Reason why a run cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("pages show {MOST_SHOWN} runs already; close one")]
    Full,
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl Watchers {
    pub(crate) fn new(library: Library) -> Self {
        Self {
            library,
            shown: Mutex::default(),
        }
    }

    /// Returns the state of a run, which is read from now on.
    ///
    /// # Errors
    /// Fails if there is no such run, or if pages show too many others.
    pub(crate) fn watch(&self, name: &str) -> Result<Arc<Watched>, WatchError> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.retain(|_, watched| watched.strong_count() > 0);
        if let Some(watched) = shown.get(name).and_then(Weak::upgrade) {
            return Ok(watched);
        }
        if shown.len() >= MOST_SHOWN {
            return Err(WatchError::Full);
        }
        let directory = self.library.run(name)?;
        let run = RunView::of(name, &directory.manifest()?, false);
        let watched = Arc::new(Watched {
            directory,
            store: Mutex::new(Store::new(run)),
            changes: watch::Sender::new(0),
        });
        let reader = Reader::new(&watched, name);
        let thread = thread::Builder::new().name("watcher".into());
        thread
            .spawn(|| reader.read_on())
            .map_err(WatchError::Thread)?;
        shown.insert(name.to_owned(), Arc::downgrade(&watched));
        Ok(watched)
    }
}

impl Watched {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        // Each change leaves a state that can be shown.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that learns of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// Reader of one run.
struct Reader {
    watched: Weak<Watched>,
    name: String,
    run: RunDirectory,
    session: Option<Watching>,
    /// Times and virtual times of the last answers, for the rate.
    answers: VecDeque<(Instant, i64)>,
    signals: Tail<SignalRow>,
    events: Tail<EventRow>,
    labels: Tail<LabelRow>,
    /// True once the tables of a finished run were read.
    has_tables: bool,
    looked: Option<Instant>,
}

/// Result of one round of reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// There may be more to read now.
    More,
    /// All was read.
    Rest,
    /// The run has ended, and nothing will change.
    End,
}

impl Reader {
    fn new(watched: &Arc<Watched>, name: &str) -> Self {
        let run = watched.directory.clone();
        Self {
            watched: Arc::downgrade(watched),
            name: name.to_owned(),
            signals: run.tail(),
            events: run.tail(),
            labels: run.tail(),
            run,
            session: None,
            answers: VecDeque::new(),
            has_tables: false,
            looked: None,
        }
    }

    fn read_on(mut self) {
        while let Some(watched) = self.watched.upgrade() {
            let round = self.round(&watched).unwrap_or_else(|error| {
                self.remark(&watched, &error);
                Round::Rest
            });
            watched.changes.send_modify(|changes| *changes += 1);
            drop(watched);
            match round {
                Round::More => thread::yield_now(),
                Round::Rest => thread::sleep(INTERVAL),
                Round::End => return,
            }
        }
    }

    /// Reads what is new.
    fn round(&mut self, watched: &Watched) -> Result<Round, ResultsError> {
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        let mut has_ended = false;
        if is_due {
            self.looked = Some(Instant::now());
            has_ended = self.look(watched)?;
        }
        if self.session.is_some() {
            self.ask(watched);
        }
        // In this order: a run that has ended is read to its end after that was seen.
        if self.run.is_finished() && !self.has_tables && self.signals.is_unused() {
            self.read_tables(watched)?;
        }
        let more = self.read_journals(watched)?;
        Ok(match (more, has_ended) {
            (true, _) => Round::More,
            (false, true) => Round::End,
            (false, false) => Round::Rest,
        })
    }

    /// Reads what changes seldom: the manifest, the checks, the names of the logs; and looks for
    /// the session. Returns true if the run has ended.
    fn look(&mut self, watched: &Watched) -> Result<bool, ResultsError> {
        let manifest = self.run.manifest()?;
        let is_running = manifest.outcome == Outcome::Running;
        if is_running && self.session.is_none() {
            self.session = session::find(&self.run).map(|(watching, _)| watching);
            if let Some(watching) = &self.session {
                self.list_hosts(watched, watching.session());
            }
        }
        let mut run = RunView::of(&self.name, &manifest, self.session.is_some());
        run.has_report = self.run.has_report();
        if self.run.has_checks() {
            let checks = self.run.checks()?;
            run.checks = checks.iter().take(MOST_ITEMS).map(CheckView::of).collect();
        }
        let logs = self.run.log_names()?;
        let mut store = watched.store();
        store.set_logs(logs);
        run.remarks = store.remarks();
        store.run.set(run);
        if !is_running && self.session.is_none() {
            store.clock.set(Some(ClockView::at_the_end(&manifest)));
        }
        Ok(!is_running && self.session.is_none())
    }

    /// Lists the hosts once: a session answers without them otherwise.
    fn list_hosts(&self, watched: &Watched, session: &str) {
        if let Ok(status) = connect(Some(session), &Request::Query) {
            let hosts = status.hosts.iter().take(MOST_HOSTS).map(host_view);
            let hosts = hosts.collect();
            watched.store().hosts.set(hosts);
        }
    }

    /// Asks the session for its clock.
    fn ask(&mut self, watched: &Watched) {
        let Some(Ok(status)) = self.session.as_mut().map(Watching::status) else {
            // It has ended, or does not answer: the next look tells.
            self.session = None;
            self.looked = None;
            return;
        };
        let rate = self.rate(&status);
        let mut store = watched.store();
        store.clock.set(Some(ClockView::of(&status, rate)));
        let mut hosts = store.hosts.get().clone();
        for host in &mut hosts {
            let off = status.hosts.iter().find(|off| off.name == host.name);
            *host = match off {
                Some(off) => host_view(off),
                None => HostView {
                    behind_s: 0.0,
                    paused: false,
                    dilation: 1.0,
                    name: std::mem::take(&mut host.name),
                },
            };
        }
        store.hosts.set(hosts);
    }

    /// Returns virtual seconds per wall second, over the last answers.
    fn rate(&mut self, status: &StatusText) -> Option<f64> {
        let now = Instant::now();
        self.answers.push_back((now, status.virtual_ns));
        while self.answers.len() > RATE_ANSWERS {
            self.answers.pop_front();
        }
        let (then, virtual_ns) = *self.answers.front()?;
        let wall_s = now.duration_since(then).as_secs_f64();
        (wall_s > 0.0).then(|| seconds(status.virtual_ns - virtual_ns) / wall_s)
    }

    /// Reads the tables of a run that had ended before a page showed it.
    fn read_tables(&mut self, watched: &Watched) -> Result<(), ResultsError> {
        self.has_tables = true;
        let most = MOST_ROWS;
        self.run
            .for_first(most, |row: LabelRow| watched.store().add_label(&row))?;
        self.run
            .for_first(most, |row: EventRow| watched.store().add_event(&row))?;
        self.run
            .for_first(most, |row: SignalRow| watched.store().add_sample(&row))?;
        Ok(())
    }

    /// Reads the journals; returns true if there may be more.
    fn read_journals(&mut self, watched: &Watched) -> Result<bool, ResultsError> {
        let mut store = watched.store();
        let labels = self
            .labels
            .read(ROWS_AT_ONCE, |row| store.add_label(&row))?;
        let events = self
            .events
            .read(ROWS_AT_ONCE, |row| store.add_event(&row))?;
        let signals = self
            .signals
            .read(ROWS_AT_ONCE, |row| store.add_sample(&row))?;
        Ok(labels || events || signals)
    }

    /// Shows an error of reading on the page.
    fn remark(&self, watched: &Watched, error: &ResultsError) {
        let mut store = watched.store();
        let mut run = store.run.get().clone();
        run.remarks = store.remarks();
        run.remarks
            .push(bounded(&format!("Reading the run: {error}")));
        store.run.set(run);
    }
}

fn host_view(host: &timeloom_guest::HostText) -> HostView {
    HostView {
        name: bounded(&host.name),
        behind_s: seconds(host.behind_ns),
        paused: host.paused,
        dilation: host.dilation,
    }
}

/// Interval between two rounds.
const INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two looks at what changes seldom.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Number of answers over which the rate is taken: those of about two seconds.
const RATE_ANSWERS: usize = 9;
/// Maximum number of runs that pages show.
const MOST_SHOWN: usize = 16;
const MOST_HOSTS: usize = 1000;
/// Number of rows of a journal that are read before pages are updated.
const ROWS_AT_ONCE: usize = 5000;
/// Maximum number of rows of a table that are read of a finished run.
const MOST_ROWS: u64 = 20_000_000;
