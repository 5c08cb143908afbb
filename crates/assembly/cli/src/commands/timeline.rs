//! Command `timeloom timeline`: runs the daemon that keeps timelines, and reads timelines.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use timeloom_run::exit::{Failure, note, say};
use timeloom_time::Duration;
use timeloom_timeline::Observation;
use timeloom_timeline::protocol::{Directory, StampText, TimelineName, TimelineScale};
use timeloom_timelined::DaemonError;
use timeloom_timelined::config::{DaemonConfig, SourceConfig, TimelineConfig};

#[derive(Subcommand)]
pub(crate) enum Timeline {
    Serve(Serve),
    List(List),
    Watch(Watch),
    Read(Read),
}

impl Timeline {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Serve(command) => command.run(),
            Self::List(command) => command.run(),
            Self::Watch(command) => command.run(),
            Self::Read(command) => command.run(),
        }
    }
}

/// Keep timelines until SIGTERM or SIGINT
///
/// With a file, keeps all timelines that the file defines; otherwise keeps one, which the options
/// define. The system clock is never changed.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom timeline serve plant --source chrony --oscillator-error-ppb 50000"
)]
pub(crate) struct Serve {
    /// Name of the timeline
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    name: Option<TimelineName>,
    /// File that defines one or several timelines (docs/timeline.md)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Source of time: chrony, ptp, ptp4l, system-clock, phc, clockbound, vmclock, timeline, peer
    /// or simulated, with its keys (docs/timeline.md); may be repeated
    #[arg(
        long = "source",
        value_name = "TYPE[,KEY=VALUE]...",
        conflicts_with = "config"
    )]
    sources: Vec<String>,
    /// Maximum frequency error of the machine's oscillator, in parts per 10^9 [default: 100000]
    #[arg(long, value_name = "PPB", conflicts_with = "config")]
    oscillator_error_ppb: Option<i64>,
    /// Time for which an answer of a source remains valid, e.g. `60 s` [default: 1000 s]
    #[arg(long, value_name = "SPAN", conflicts_with = "config")]
    ttl: Option<Duration>,
    /// Create a timeline in the scale of its sources instead of TAI
    #[arg(long, conflicts_with = "config")]
    local: bool,
    /// TAI minus UTC in seconds, for sources that report UTC without it [default: the kernel's
    /// value]
    #[arg(long, value_name = "SECONDS", conflicts_with = "config")]
    tai_offset_s: Option<i16>,
    #[command(flatten)]
    place: DirectoryArg,
}

/// Directory that the daemon and programs share.
#[derive(Args)]
pub(crate) struct DirectoryArg {
    /// Directory that daemon and programs share [default: $TIMELOOM_TIMELINES, else /run/timelines]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl DirectoryArg {
    pub(super) fn directory(&self) -> Directory {
        self.directory
            .clone()
            .map_or_else(Directory::usual, Directory::new)
    }
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])
            .map_err(|error| Failure::run(format!("catching signals: {error}")))?;
        let config = self.config()?;
        let daemon = timeloom_timelined::serve(&config).map_err(|error| match error {
            DaemonError::Config(_) | DaemonError::Taken { .. } => Failure::usage(error),
            DaemonError::System(..) => Failure::run(error),
        })?;
        for timeline in daemon.timelines() {
            note!(
                "timeloom: keeping {} at {}",
                timeline.name(),
                timeline.path().display()
            );
        }
        signals.forever().next();
        Ok(ExitCode::SUCCESS)
    }

    fn config(self) -> Result<DaemonConfig, Failure> {
        let mut config = match (&self.config, self.name) {
            (Some(path), _) => {
                let at = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
                let text = std::fs::read_to_string(path).map_err(|e| Failure::usage(at(&e)))?;
                text.parse().map_err(|error| Failure::usage(at(&error)))?
            }
            (None, Some(name)) => {
                let mut timeline = TimelineConfig::new(name);
                let sources: Result<Vec<SourceConfig>, _> =
                    self.sources.iter().map(|source| source.parse()).collect();
                timeline.sources = sources.map_err(Failure::usage)?;
                if let Some(ppb) = self.oscillator_error_ppb {
                    timeline.oscillator.max_error_ppb = ppb;
                }
                timeline.time_to_live = self.ttl.unwrap_or(timeline.time_to_live);
                if self.local {
                    timeline.scale = TimelineScale::Local;
                }
                timeline.tai_offset_s = self.tai_offset_s;
                DaemonConfig {
                    directory: None,
                    timelines: vec![timeline],
                }
            }
            (None, None) => unreachable!("clap requires one of them"),
        };
        config.directory = self.place.directory.or(config.directory);
        Ok(config)
    }
}

/// List the timelines of this machine, and their state
#[derive(Args)]
pub(crate) struct List {
    /// Print one JSON object per line, for each timeline
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DirectoryArg,
}

impl List {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let directory = self.place.directory();
        let names = directory.names();
        if names.is_empty() && !self.json {
            note!("timeloom: no timeline in {}", directory.path().display());
        }
        for name in names {
            match timeloom_timeline::observe(&directory, &name) {
                Ok(seen) => self.print(&seen),
                Err(refusal) => note!("timeloom: {name}: {refusal}"),
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, seen: &Observation) {
        if self.json {
            print_json(seen);
            return;
        }
        say!("{}: {}", seen.name, quality(&seen.stamp));
        let Some(daemon) = &seen.daemon else {
            say!("  no daemon maintains it");
            return;
        };
        say!(
            "  daemon {}, {} bindings, a query every {}, {:+.3} ppm, {} disturbances",
            daemon.pid,
            daemon.bindings,
            Duration::from_ns(daemon.poll_interval_ns),
            daemon.frequency_ppb / 1e3,
            daemon.disturbances,
        );
        if let Some(contradiction) = &daemon.tai_offset_contradiction {
            say!("  warning: {contradiction}");
        }
        for source in &daemon.sources {
            let last = source.last_refusal.as_deref().unwrap_or("");
            say!(
                "  {}: {} asked, {} answered, {} refused{}{last}",
                source.source,
                source.asked,
                source.answered,
                source.refused,
                if last.is_empty() {
                    ""
                } else {
                    ", the last because "
                },
            );
        }
    }
}

/// Read a timeline once
///
/// Exits with 1 if the timeline has no interval.
#[derive(Args)]
#[command(after_help = "Example: timeloom timeline read plant --json")]
pub(crate) struct Read {
    /// Name of the timeline
    name: TimelineName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DirectoryArg,
}

impl Read {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let directory = self.place.directory();
        let stamp = read(&directory, &self.name)?;
        print_stamp(&stamp, self.json);
        if stamp.interval.is_none() {
            for reason in reasons(&directory, &self.name) {
                note!("timeloom: {reason}");
            }
        }
        Ok(ExitCode::from(u8::from(stamp.interval.is_none())))
    }
}

/// Read a timeline repeatedly
#[derive(Args)]
#[command(after_help = "Example: timeloom timeline watch plant --every '100 ms' --count 50")]
pub(crate) struct Watch {
    /// Name of the timeline
    name: TimelineName,
    /// Time from one reading to the next
    #[arg(long, value_name = "SPAN", default_value = "1 s")]
    every: Duration,
    /// End after this number of readings [default: at Ctrl-C]
    #[arg(long)]
    count: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DirectoryArg,
}

impl Watch {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let directory = self.place.directory();
        let every = core::time::Duration::from_nanos(self.every.as_ns().max(0) as u64);
        let mut readings = 0;
        let mut said = Vec::new();
        loop {
            let stamp = read(&directory, &self.name)?;
            print_stamp(&stamp, self.json);
            let why = match stamp.interval {
                Some(_) => Vec::new(),
                None => reasons(&directory, &self.name),
            };
            if why != said {
                why.iter().for_each(|reason| note!("timeloom: {reason}"));
                said = why;
            }
            readings += 1;
            if self.count.is_some_and(|count| readings >= count) {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(every);
        }
    }
}

/// Returns the daemon's reasons why a timeline has no interval: the answers of those sources that
/// have never given a time.
fn reasons(directory: &Directory, name: &TimelineName) -> Vec<String> {
    let Ok(seen) = timeloom_timeline::observe(directory, name) else {
        return Vec::new();
    };
    let Some(daemon) = seen.daemon else {
        return vec![format!("no daemon maintains {name}")];
    };
    let mute = daemon.sources.iter().filter(|source| source.answered == 0);
    let refusals = mute.filter_map(|source| {
        let last = source.last_refusal.as_deref()?;
        Some(format!(
            "the source {} has not answered yet: {last}",
            source.source
        ))
    });
    let contradiction = daemon.tai_offset_contradiction.iter();
    refusals.chain(contradiction.cloned()).collect()
}

/// Reads a timeline. If the name is unknown, the error lists the names that exist.
fn read(directory: &Directory, name: &TimelineName) -> Result<StampText, Failure> {
    timeloom_timeline::read(directory, name).map_err(|refusal| {
        let names = directory.names();
        if names.contains(name) {
            return Failure::run(format!("{name}: {refusal}"));
        }
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let there = match names.as_slice() {
            [] => "there is none; `timeloom timeline serve` keeps one".to_owned(),
            _ => format!("there are {}", names.join(", ")),
        };
        let place = directory.path().display();
        Failure::usage(format!("there is no timeline `{name}` in {place}: {there}"))
    })
}

fn print_stamp(stamp: &StampText, json: bool) {
    if json {
        print_json(stamp);
    } else if let Some(interval) = stamp.interval {
        say!("{} ns  {}", interval.estimate_ns, quality(stamp));
    } else {
        say!("{}", quality(stamp));
    }
}

fn print_json(object: &impl serde::Serialize) {
    say!("{}", serde_json::to_string(object).expect("plain data"));
}

/// Formats status and error bounds, such as `ok, −12 us +14 us`.
fn quality(stamp: &StampText) -> String {
    let status = stamp.status;
    match stamp.interval {
        None => format!("{status}, no interval"),
        Some(interval) => {
            let length = |ns| Duration::from_ns(ns);
            let below = length(interval.estimate_ns - interval.earliest_ns);
            let above = length(interval.latest_ns - interval.estimate_ns);
            format!("{status}, −{below} +{above}")
        }
    }
}
