//! Threads that read the runs which pages show. A thread reads the directory of one run and queries
//! the run's session four times a second. It ends when no page shows the run any more.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use timeloom_guest::{Request, StatusConnection, StatusText, connect};
use timeloom_results::{
    EventRow, LabelRow, Library, Outcome, ResultsError, RunDirectory, SignalRow, Tail,
};
use timeloom_time::Utc;
use tokio::sync::watch;

use super::session::Sessions;
use super::store::{Change, DisplayedRow, Store, first_only};
use super::view::{CheckView, ClockView, HostView, MOST_ITEMS, RunView, bounded, seconds};

/// Directory of runs, and the runs in it that pages show.
#[derive(Debug)]
pub(crate) struct Watchers {
    pub(crate) library: Library,
    pub(crate) sessions: Arc<Sessions>,
    /// Runs that pages show, by name.
    shown: Mutex<HashMap<String, Weak<Watched>>>,
}

/// Run that pages show. The thread that reads it ends when the last page drops this value.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) directory: RunDirectory,
    store: Mutex<Store>,
    /// Number of changes, as sent by the thread. A slow page sees only the last number.
    changes: watch::Receiver<u64>,
    /// True if another run has replaced this one in the directory.
    is_replaced: AtomicBool,
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
            sessions: Arc::default(),
            shown: Mutex::default(),
        }
    }

    /// Returns the state of a run, and starts to read the run if no page shows it yet.
    ///
    /// # Errors
    /// Fails if there is no such run, or if pages show too many other runs.
    pub(crate) fn watch(&self, name: &str) -> Result<Arc<Watched>, WatchError> {
        let mut shown = self.shown.lock();
        shown.retain(|_, watched| watched.strong_count() > 0);
        let known = shown.get(name).and_then(Weak::upgrade);
        if let Some(watched) = known.filter(|it| !it.is_replaced.load(Ordering::Relaxed)) {
            return Ok(watched);
        }
        if shown.len() >= MOST_SHOWN {
            return Err(WatchError::Full);
        }
        let directory = self.library.run(name)?;
        let manifest = directory.manifest()?;
        let run = RunView::of(name, &directory, &manifest, false);
        let (sender, changes) = watch::channel(0);
        let watched = Arc::new(Watched {
            directory: directory.clone(),
            store: Mutex::new(Store::new(run)),
            changes,
            is_replaced: AtomicBool::new(false),
        });
        let reader = Reader {
            watched: Arc::downgrade(&watched),
            changes: sender,
            name: name.to_owned(),
            started: manifest.started,
            sessions: Arc::clone(&self.sessions),
            signals: directory.tail(),
            events: directory.tail(),
            labels: directory.tail(),
            run: directory,
            session: None,
            answers: VecDeque::new(),
            has_tables: false,
            is_at_end: false,
            looked: None,
        };
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
        self.store.lock()
    }

    /// Returns a receiver that is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

/// Reader of one run. It holds no reference to the run's state while it reads, so it ends soon
/// after the last page is closed. It locks the state only while it adds rows.
struct Reader {
    watched: Weak<Watched>,
    changes: watch::Sender<u64>,
    name: String,
    /// Civil time at the start of the run, which distinguishes the run from a later one in the same
    /// directory.
    started: timeloom_time::Instant<Utc>,
    run: RunDirectory,
    sessions: Arc<Sessions>,
    session: Option<StatusConnection>,
    /// Wall time and virtual time of the most recent answers, from which the rate is computed.
    answers: VecDeque<(Instant, i64)>,
    signals: Tail<SignalRow>,
    events: Tail<EventRow>,
    labels: Tail<LabelRow>,
    /// True once the tables of a finished run were read.
    has_tables: bool,
    /// True once the run has ended and was read completely. Its report may be written later.
    is_at_end: bool,
    looked: Option<Instant>,
}

/// Result of one round of reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// There may be more rows to read.
    More,
    /// All rows were read.
    Rest,
}

/// Reason why a reader ends.
enum Stop {
    /// No page shows the run any more.
    Gone,
    /// Another run has replaced this one in the directory.
    Replaced,
}

impl Reader {
    fn read_on(mut self) {
        loop {
            let round = self.round();
            self.changes.send_modify(|changes| *changes += 1);
            match round {
                Ok(Round::More) => thread::yield_now(),
                Ok(Round::Rest) if self.is_at_end => thread::sleep(LOOK_AT_END),
                Ok(Round::Rest) => thread::sleep(INTERVAL),
                Err(Stop::Gone) => return,
                Err(Stop::Replaced) => break,
            }
        }
        // Pages show what was read of the earlier run, with a remark, until they are closed.
        while self.watched.strong_count() > 0 {
            thread::sleep(LOOK_AT_END);
        }
    }

    /// Calls `change` with the state, unless no page shows the run any more.
    fn with<T>(&self, change: impl FnOnce(&mut Store) -> T) -> Result<T, Stop> {
        let watched = self.watched.upgrade().ok_or(Stop::Gone)?;
        let changed = change(&mut watched.store());
        Ok(changed)
    }

    /// Stores the reason why a part could not be read, or removes it if the part could be read.
    fn tell(&self, part: &'static str, read: Result<(), ResultsError>) -> Result<(), Stop> {
        let trouble = read.err();
        let trouble = trouble.map(|error| bounded(&format!("Reading the {part}: {error}")));
        self.with(|store| store.set_trouble(part, trouble))
    }

    /// Reads the rows and properties that are new since the last round.
    fn round(&mut self) -> Result<Round, Stop> {
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        let mut has_ended = false;
        if is_due {
            self.looked = Some(Instant::now());
            let looked = self.look()?;
            has_ended = matches!(looked, Ok(true));
            self.tell("run", looked.map(drop))?;
        }
        if self.is_at_end {
            return Ok(Round::Rest);
        }
        if self.session.is_some() {
            self.ask()?;
        }
        // In this order: a run that has ended is read to its end after that was seen.
        if self.run.is_finished() && !self.has_tables && self.signals.is_unused() {
            self.has_tables = true;
            self.read_table::<LabelRow>("attacks")?;
            self.read_table::<EventRow>("events")?;
            self.read_table::<SignalRow>("signals")?;
        }
        let begun = Instant::now();
        while self.read_journals()? {
            // The clock and the pages are not to wait for the whole of a long journal.
            if begun.elapsed() >= INTERVAL {
                return Ok(Round::More);
            }
        }
        self.is_at_end = has_ended;
        Ok(Round::Rest)
    }

    /// Reads the parts that seldom change (manifest, checks, names of the logs), and searches for
    /// the session. Returns true if the run has ended.
    fn look(&mut self) -> Result<Result<bool, ResultsError>, Stop> {
        let manifest = match self.run.manifest() {
            Ok(manifest) => manifest,
            Err(error) => return Ok(Err(error)),
        };
        if manifest.started != self.started {
            if let Some(watched) = self.watched.upgrade() {
                watched.is_replaced.store(true, Ordering::Relaxed);
            }
            let text = "Another run has replaced this one; load the page again to see it.";
            self.with(|store| store.set_trouble("run", Some(text.to_owned())))?;
            return Err(Stop::Replaced);
        }
        let is_running = manifest.outcome == Outcome::Running;
        if is_running && self.session.is_none() {
            let name = self.sessions.of(&self.run);
            self.session = name.and_then(|name| self.sessions.open(&name));
            if let Some(watching) = &self.session {
                self.list_hosts(watching.session())?;
            }
        }
        let has_session = self.session.is_some();
        let mut run = RunView::of(&self.name, &self.run, &manifest, has_session);
        let mut read = Ok(());
        if self.run.has_checks() {
            match self.run.checks() {
                Ok(checks) => {
                    run.checks = checks.iter().take(MOST_ITEMS).map(CheckView::of).collect();
                }
                Err(error) => read = Err(error),
            }
        }
        let logs = self.run.log_names();
        let has_ended = !is_running && !has_session;
        self.with(|store| {
            match logs {
                Ok(logs) => store.set_logs(logs),
                Err(error) => read = Err(error),
            }
            store.set_run(run);
            if has_ended {
                store.clock.set(Some(ClockView::at_the_end(&manifest)));
            }
        })?;
        Ok(read.map(|()| has_ended))
    }

    /// Requests the list of hosts once. Other answers of a session do not contain it.
    fn list_hosts(&self, session: &str) -> Result<(), Stop> {
        if let Ok(status) = connect(Some(session), &Request::Query) {
            let hosts = status.hosts.iter().take(MOST_HOSTS).map(host_view);
            let hosts = hosts.collect();
            self.with(|store| store.hosts.set(hosts))?;
        }
        Ok(())
    }

    /// Queries the clock of the session.
    fn ask(&mut self) -> Result<(), Stop> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let Ok(status) = session.flushed_status() else {
            // It has ended, or does not answer: the next look tells.
            self.sessions.forget(session.session());
            self.session = None;
            self.looked = None;
            return Ok(());
        };
        let rate = self.rate(&status);
        self.with(|store| {
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
        })
    }

    /// Returns virtual seconds per wall second over the most recent answers.
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

    /// Reads a table of a run that had ended before a page showed the run. The table is read only
    /// once, so an error is shown permanently.
    fn read_table<R: DisplayedRow>(&self, part: &'static str) -> Result<(), Stop> {
        let mut told = Instant::now();
        let mut changes = Vec::with_capacity(ROWS_AT_ONCE);
        let mut is_gone = false;
        let read = self.run.for_first(MOST_ROWS, |row: R| {
            changes.extend(row.change());
            if changes.len() >= ROWS_AT_ONCE {
                is_gone = self.apply(&mut changes).is_err();
                if told.elapsed() >= INTERVAL {
                    told = Instant::now();
                    self.changes.send_modify(|changes| *changes += 1);
                }
            }
            match is_gone {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        self.apply(&mut changes)?;
        match read {
            Ok(true) => Ok(()),
            Ok(false) => {
                let most = usize::try_from(MOST_ROWS).unwrap_or(usize::MAX);
                let cut = first_only(most, &format!("rows of the {part}"));
                self.with(|store| store.set_trouble(part, Some(cut)))
            }
            Err(error) => self.tell(part, Err(error)),
        }
    }

    /// Reads some rows of each journal; returns true if there may be more rows.
    fn read_journals(&mut self) -> Result<bool, Stop> {
        let mut changes = Vec::new();
        let labels = read_some(&mut self.labels, &mut changes);
        let events = read_some(&mut self.events, &mut changes);
        let signals = read_some(&mut self.signals, &mut changes);
        self.apply(&mut changes)?;
        let mut may_be_more = false;
        let mut read = Ok(());
        for one in [labels, events, signals] {
            match one {
                Ok(more) => may_be_more |= more,
                Err(error) => read = Err(error),
            }
        }
        self.tell("journal", read)?;
        Ok(may_be_more)
    }

    /// Adds rows to the state.
    fn apply(&self, changes: &mut Vec<Change>) -> Result<(), Stop> {
        self.with(|store| changes.drain(..).for_each(|change| store.apply(change)))
    }
}

fn read_some<R: DisplayedRow>(
    tail: &mut Tail<R>,
    changes: &mut Vec<Change>,
) -> Result<bool, ResultsError> {
    tail.read(ROWS_AT_ONCE, |row| changes.extend(row.change()))
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
/// Interval between two reads of the parts that seldom change.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Number of answers over which the rate is computed; they span about two seconds.
const RATE_ANSWERS: usize = 9;
/// Maximum number of runs that pages show.
const MOST_SHOWN: usize = 16;
const MOST_HOSTS: usize = 1000;
/// Interval between two reads of a run that has ended, whose report and checks may be written
/// later.
const LOOK_AT_END: Duration = Duration::from_secs(2);
/// Number of rows that are added to the state at once.
const ROWS_AT_ONCE: usize = 500;
/// Maximum number of rows that are read from a table of a finished run.
const MOST_ROWS: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_results::Manifest;

    /// Opens more pages than runs can be shown, and closes each before its run was read.
    #[test]
    fn a_page_that_is_closed_makes_room_while_its_run_is_read() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let first = place.path().join("run-0");
        let run = RunDirectory::create(&first).expect("it can be made");
        let manifest = Manifest::begin("tank", 7, timeloom_time::Instant::ZERO, b"");
        run.write_manifest(&manifest).expect("there is room");
        let recorder = run.recorder().expect("the first one");
        for number in 0..200_000 {
            let row = SignalRow {
                t_virtual: timeloom_time::Instant::from_ns(number * 1_000_000),
                t_wall: timeloom_time::Instant::ZERO,
                host: "local".into(),
                source: "tank".into(),
                name: "level".into(),
                value: number as f64,
                unit: "m".into(),
            };
            recorder.signal(&row).expect("there is room");
        }
        recorder.finish().expect("there is room");
        let last = MOST_SHOWN * 2;
        for number in 1..=last {
            let copy = place.path().join(format!("run-{number}"));
            std::fs::create_dir(&copy).expect("it can be made");
            let files = std::fs::read_dir(&first).expect("it can be read").flatten();
            for file in files.filter(|file| file.path().is_file()) {
                std::fs::copy(file.path(), copy.join(file.file_name())).expect("there is room");
            }
        }
        let library = Library::open(place.path()).expect("a directory");
        let watchers = Watchers::new(library);
        for number in 0..=last {
            let watched = watchers
                .watch(&format!("run-{number}"))
                .expect("there is room");
            // It is being read.
            while watched.store().signals.is_empty() {
                thread::yield_now();
            }
        }
    }
}
