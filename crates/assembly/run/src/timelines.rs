//! Timelines of the hosts. A daemon, which is a program of its host, keeps them; the run compares
//! them with true time, which only the run knows.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeloom_clock::quality::Status;
use timeloom_guest::{Clock, Host, TrueTime};
use timeloom_results::{RunDirectory, TIMELINE_JOURNAL, TIMELINES_CONFIG};
use timeloom_scenario::{Host as HostSpec, Plan, Program, TimelineSpec};
use timeloom_time::{Duration, Instant, Virtual};
use timeloom_timeline::protocol::{StatusChange, TimelineScale, decode};
use timeloom_timeline::shm::{Domain, PageReader, Reading};

use crate::error::RunError;
use crate::hosts::Hosts;
use crate::record::RunRecorder;

/// Daemon that maintains the timelines of a host.
pub(crate) struct TimelineDaemon {
    pub(crate) host: String,
    /// Directory shared by the daemon and the host's programs.
    pub(crate) directory: PathBuf,
    pub(crate) program: Program,
}

/// Writes the daemons' configurations into the run directory. Each host gets a directory there that
/// its daemon shares with the host's programs.
///
/// # Errors
/// Returns an error if the disk is full, or if the path of the run directory is too long for a
/// socket.
pub(crate) fn prepare(
    plan: &Plan,
    run: &RunDirectory,
    timeloom: &Path,
) -> Result<Vec<TimelineDaemon>, RunError> {
    let hosts = plan.system.hosts.iter();
    let keeping = hosts.filter(|(_, host)| !host.timelines.is_empty());
    keeping
        .map(|(name, host)| keeper(name, host, run, timeloom))
        .collect()
}

fn keeper(
    name: &str,
    host: &HostSpec,
    run: &RunDirectory,
    timeloom: &Path,
) -> Result<TimelineDaemon, RunError> {
    let tables: Result<Vec<toml::Value>, _> = host
        .timelines
        .iter()
        .map(|(name, timeline)| {
            timeline.to_table(name).map(|mut table| {
                // The path is relative to the daemon's working directory.
                let journal = format!("{name}{TIMELINE_JOURNAL}");
                table.insert("journal".to_owned(), journal.into());
                toml::Value::from(table)
            })
        })
        .collect();
    let tables = tables.map_err(|error| {
        RunError::Start(format!("the configuration of timelines of {name}: {error}"))
    })?;
    let config = toml::Table::from_iter([("timeline".to_owned(), toml::Value::Array(tables))]);
    let directory = run.make_timelines(name, &config.to_string())?;
    let longest = host.timelines.keys().map(String::len).max().unwrap_or(0);
    if directory.as_os_str().len() + longest + SUFFIX > SOCKET_PATH {
        return Err(RunError::Start(format!(
            "{} is too long a path for the sockets of timelines; give a shorter one by `--output`",
            directory.display()
        )));
    }
    let file = directory.join(TIMELINES_CONFIG);
    let text = |path: &Path| path.display().to_string();
    Ok(TimelineDaemon {
        host: name.to_owned(),
        program: Program {
            name: HostSpec::timeline_program(name),
            run: vec![
                text(timeloom),
                "timeline".into(),
                "serve".into(),
                "--config".into(),
                text(&file),
                "--directory".into(),
                text(&directory),
            ],
            // The configuration's relative paths start in this directory.
            directory: directory.clone(),
            essential: host.timelines.values().any(|timeline| timeline.essential),
            ..Program::default()
        },
        directory,
    })
}

/// Removes the sockets, locks and journals of daemons that have ended. The pages are kept, because
/// they are results.
pub(crate) fn finalize(run: &RunDirectory, keepers: &[TimelineDaemon]) {
    for keeper in keepers {
        run.remove_timeline_leftovers(&keeper.host);
    }
}

/// Compares each timeline with true time, at the interval that its scenario gives, until `over`
/// returns true.
pub(crate) fn record(
    plan: &Plan,
    clock: &Clock,
    hosts: &Hosts,
    (run, keepers): (&RunDirectory, &[TimelineDaemon]),
    run_recorder: &RunRecorder,
    over: impl Fn() -> bool,
) {
    let mut watched: Vec<Watched<'_>> = keepers
        .iter()
        .flat_map(|keeper| {
            let described = &plan.system.hosts[&keeper.host];
            let host = &hosts[&keeper.host];
            described.timelines.iter().map(|(name, spec)| Watched {
                host: Arc::clone(host),
                source: keeper.host.as_str().into(),
                name,
                spec,
                run,
                reader: None,
                journal: StatusLog::default(),
                // No sample at zero: the daemon is still starting, so the page would exist in some
                // runs and not in others.
                next: Instant::ZERO + spec.every,
                status: Status::NeverSynchronised,
                unexplained: None,
            })
        })
        .collect();
    // No sample at the end of the run either: whether it were taken before the end would be a
    // matter of chance.
    let end = Instant::ZERO + plan.time.duration;
    while let Some(next) = watched.iter().map(|timeline| timeline.next).min() {
        let until = match next < end {
            true => next,
            false => Instant::FAR_FUTURE,
        };
        if !clock.wait_until_in_the_background(until, &over) {
            break;
        }
        for timeline in watched.iter_mut().filter(|timeline| timeline.next <= next) {
            let at = timeline.look(clock, run_recorder);
            while timeline.next <= at {
                timeline.next += timeline.spec.every;
            }
        }
    }
    for timeline in &mut watched {
        timeline.follow_journal(clock, run_recorder);
        timeline.settle(run_recorder);
    }
}

/// Reader of the journal in which a daemon records changes of a timeline's status; the file grows.
#[derive(Default)]
struct StatusLog {
    /// Journal file; `None` until the daemon has created it.
    file: Option<File>,
    /// Number of bytes that have been read. It always ends with a whole line.
    read: u64,
}

impl StatusLog {
    /// Returns the changes since the last call. A program writes the file, so its content is not
    /// trusted: an invalid line ends the reading for good.
    fn news(&mut self, open: impl FnOnce() -> Option<File>) -> Vec<StatusChange> {
        self.file = self.file.take().or_else(open);
        let Some(mut file) = self.file.as_ref() else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.read))
            .and_then(|_| file.take(MOST_AT_ONCE).read_to_end(&mut bytes));
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let (Ok(_), Some(end)) = (read, whole) else {
            return Vec::new();
        };
        self.read += end as u64 + 1;
        let lines = bytes[..end].split(|byte| *byte == b'\n');
        lines.map_while(|line| decode(line).ok()).collect()
    }
}

/// A timeline whose page the run reads.
struct Watched<'a> {
    host: Arc<Host>,
    source: Arc<str>,
    name: &'a str,
    spec: &'a TimelineSpec,
    run: &'a RunDirectory,
    /// Reader of the page; `None` until the daemon has created the page.
    reader: Option<PageReader>,
    next: Instant<Virtual>,
    journal: StatusLog,
    /// Status that was last recorded.
    status: Status,
    /// Status that the page shows but the journal does not contain, with the virtual instant at
    /// which it was first seen.
    unexplained: Option<(Status, Instant<Virtual>)>,
}

impl Watched<'_> {
    /// Records one sample of the timeline, and returns the virtual instant of the sample.
    fn look(&mut self, clock: &Clock, run_recorder: &RunRecorder) -> Instant<Virtual> {
        let truth = Cell::new(clock.true_time(&self.host));
        if self.reader.is_none() {
            let domain = Domain::Host {
                session: clock.number(),
                host: self.host.number(),
            };
            let page = self.run.timeline_page(&self.source, self.name);
            let page = page.ok().flatten();
            self.reader = page.and_then(|page| PageReader::open_as(&page, domain).ok());
        }
        let reading = self.reader.as_ref().map(|reader| {
            reader.read_by(|| {
                truth.set(clock.true_time(&self.host));
                (truth.get().raw.as_ns() as u64, truth.get().disruptions)
            })
        });
        let truth = truth.get();
        self.follow_journal(clock, run_recorder);
        match reading {
            None => {}
            Some(Ok(reading)) => {
                self.tell(&reading, &truth, run_recorder);
                // A daemon that replaces the dead one creates a page of its own.
                if reading.status == Status::DaemonDead {
                    self.reader = None;
                }
            }
            Some(Err(refusal)) => {
                run_recorder.event(&self.source, self.name, "trouble", &refusal.to_string());
                self.reader = None;
            }
        }
        truth.at
    }

    fn tell(&mut self, reading: &Reading, truth: &TrueTime, run_recorder: &RunRecorder) {
        let record = |signal: &str, value: f64, unit: &str| {
            let name = format!("timeline.{}.{signal}", self.name);
            run_recorder.host_sample(&self.source, truth.at, &name, value, unit);
        };
        let length = |ns: u64| Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX));
        let (below, above) = (length(reading.below_ns), length(reading.above_ns));
        let mut outside = false;
        if reading.bounded {
            let error = Duration::from_ns(reading.estimate_ns) - self.true_reading(truth);
            let (lower, upper) = (error - below, error + above);
            outside = lower > Duration::ZERO || upper < Duration::ZERO;
            record("error", error.as_s_f64(), "s");
            record("lower", lower.as_s_f64(), "s");
            record("upper", upper.as_s_f64(), "s");
            record(
                "half_width",
                (below.as_s_f64() + above.as_s_f64()) / 2.0,
                "s",
            );
        }
        record("status", f64::from(reading.status as u8), "");
        record("outside", f64::from(u8::from(outside)), "");
        if let Some(accuracy) = self.spec.accuracy {
            let met = reading.bounded && below <= accuracy && above <= accuracy;
            record("violated", f64::from(u8::from(!met)), "");
        }
        // The daemon's own instants are used for its changes: a reader outside sees a held host as
        // disrupted, while the host's daemon notices nothing. Only the death of a daemon has the
        // instant of the sample that first showed it, once the next sample confirms it.
        let is_said = self.journal.read > 0 && reading.status != Status::DaemonDead;
        if reading.status == self.status {
            self.unexplained = None;
        } else if self
            .unexplained
            .is_none_or(|(status, _)| status != reading.status)
        {
            self.unexplained = Some((reading.status, truth.at));
        } else if !is_said {
            self.settle(run_recorder);
        }
    }

    /// Records the changes of status that the daemon has written to its journal since the last
    /// call.
    fn follow_journal(&mut self, clock: &Clock, run_recorder: &RunRecorder) {
        let (run, source, name) = (self.run, &self.source, self.name);
        let open = || run.timeline_journal(source, name).ok().flatten();
        for change in self.journal.news(open) {
            let raw = Instant::from_ns(change.local_ns);
            let at = clock.instant_of_raw(&self.host, raw);
            let at = at.unwrap_or_else(|| clock.now());
            self.change(at, change.status, change.why.as_deref(), run_recorder);
        }
    }

    /// Records a status that the page showed and the journal does not contain.
    fn settle(&mut self, run_recorder: &RunRecorder) {
        if let Some((status, at)) = self.unexplained.take() {
            self.change(at, status, None, run_recorder);
        }
    }

    fn change(
        &mut self,
        at: Instant<Virtual>,
        status: Status,
        why: Option<&str>,
        run_recorder: &RunRecorder,
    ) {
        if status == self.status {
            return;
        }
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let text = format!("{} → {status}{why}", self.status);
        let (host, signal) = (&self.source, format!("timeline.{}", self.name));
        run_recorder.host_event(host, at, &signal, "status", &text);
        let signal = format!("{signal}.status");
        run_recorder.host_sample(host, at, &signal, f64::from(status as u8), "");
        self.status = status;
        self.unexplained = None;
    }

    /// Returns the reading that the timeline would have if it were exact.
    fn true_reading(&self, truth: &TrueTime) -> Duration {
        let utc = truth.utc - Instant::ZERO;
        match (self.spec.scale, self.spec.tai_offset_s) {
            (TimelineScale::Local, _) => utc,
            // The daemon uses the same value, and gives no interval if the host's kernel states
            // another.
            (TimelineScale::Tai, Some(stated_s)) => utc + Duration::from_s(stated_s.into()),
            (TimelineScale::Tai, None) => utc + truth.tai_ahead,
        }
    }
}

/// Maximum number of bytes that one look reads from a journal; enough for thousands of changes.
const MOST_AT_ONCE: u64 = 1 << 20;
/// Maximum length of a Unix socket's path in bytes, with the terminating zero.
const SOCKET_PATH: usize = 108;
/// Length of `/`, `.sock` and the terminating zero, in bytes.
const SUFFIX: usize = 7;
