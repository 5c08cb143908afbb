//! Table 2 of the RVEC paper with the real chronyd.
//!
//! The experiment runs a generated scenario. It has a server with true time and, per platform, one
//! host for each interval; the hosts' clocks drift like the model's. On some hosts an unmodified
//! chronyd is started for each request, corrects the clock and ends (`chronyd -q`), because the
//! paper's client corrects only the time. On others chronyd runs as a daemon and also learns the
//! frequency. In mode `skip`, hours of virtual time pass in a short real time.
//!
//! The size of a correction is the value that chronyd itself reports: "System clock wrong by …", or
//! the offset in its tracking log. The difference between the clock and true time is in the run's
//! record, which chronyd cannot read.
//!
//! The links delay each packet, in each direction, by a uniformly distributed time with the
//! standard deviation of the model's queueing. The rare long delays of a wireless link are omitted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use timeloom_clock::ntp_steps::{PLATFORMS, Platform};
use timeloom_results::{ResultsError, RunDirectory};
use timeloom_run::exit::Failure;
use timeloom_run::{End, RunError, RunOptions};
use timeloom_time::Duration;

/// Parameters of the experiment.
pub struct Chronyd {
    /// Directory for the scenario and for the record of its run.
    pub directory: PathBuf,
    /// Seed of the oscillators and the network.
    pub seed: u64,
    /// Number of requests per host; the first half is not counted.
    pub questions: u32,
    /// The caller sets this to interrupt the experiment.
    pub interrupted: Arc<AtomicBool>,
    /// Callback for messages to the user.
    pub warn: Arc<dyn Fn(String) + Send + Sync>,
}

/// Mode in which chronyd runs on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A new `chronyd -q` for each request, which sets the time and ends.
    Once,
    /// A single daemon; its interval must be a power of two seconds.
    Daemon,
}

/// Corrections that the chronyd of one host made.
#[derive(Clone, Debug, PartialEq)]
pub struct ChronydRow {
    /// Platform that determines the host's drift and delays.
    pub platform: &'static Platform,
    /// Mode of chronyd.
    pub client: Client,
    /// Interval between requests; 0 means as short as possible.
    pub interval: Duration,
    /// Mean absolute correction, in ms.
    pub mean_ms: f64,
    /// Standard deviation of the absolute corrections, in ms.
    pub deviation_ms: f64,
    /// Greatest absolute correction, in ms.
    pub greatest_ms: f64,
    /// Number of corrections that are counted.
    pub corrections: usize,
    /// Number of corrections that are not counted because the previous request got no answer, as in
    /// the paper.
    pub discarded: usize,
    /// Number of `chronyd -q` processes that ended without a correction, in the whole run.
    pub failures: usize,
    /// Mean absolute difference between the clock and true time over the same part of the run, in
    /// ms, sampled each second.
    pub true_mean_ms: f64,
}

/// Reason for which the experiment has no results.
#[derive(Debug, thiserror::Error)]
pub enum ChronydError {
    /// chronyd is not installed on this machine.
    #[error(
        "there is no chronyd on the PATH, in /usr/sbin or in .tools: install the package chrony, \
         or have `scripts/chronyd` unpack it beside the sources"
    )]
    Missing,
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// The run could not be started.
    #[error("{0}")]
    Run(RunError),
    /// The run's record cannot be read.
    #[error("{0}")]
    Results(ResultsError),
    /// The run ended early, or a host's chronyd made too few corrections.
    #[error("{0}")]
    Ended(String),
}

impl From<ChronydError> for Failure {
    fn from(error: ChronydError) -> Self {
        match error {
            ChronydError::Missing => Self::machine(error),
            ChronydError::Run(error) => error.into(),
            _ => Self::run(error),
        }
    }
}

/// Runs the scenario, and returns the corrections that its chronyds made.
///
/// # Errors
/// See [`ChronydError`]. The recorded data stay in the directory.
pub fn chronyd_corrections(options: Chronyd) -> Result<Vec<ChronydRow>, ChronydError> {
    let chronyd = find_chronyd().ok_or(ChronydError::Missing)?;
    let hosts = hosts();
    let text = scenario(&hosts, &chronyd, options.seed, options.questions);
    let folder = &options.directory;
    let file = folder.join("ntp-steps.toml");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&file, &text))
        .map_err(|error| ChronydError::Io(file.clone(), error))?;
    let plan = timeloom_scenario::load(&file, &[])
        .map_err(|errors| ChronydError::Ended(errors.render(false)))?;
    let run = folder.join("run");
    let (warn, warn_of_run) = (Arc::clone(&options.warn), Arc::clone(&options.warn));
    let mut said = 0;
    let summary = timeloom_run::run(
        &plan,
        RunOptions {
            directory: run.clone(),
            replace: true,
            places: None,
            // The scenario has no timelines, so the program is not needed.
            timeloom: PathBuf::new(),
            session: format!("ntp-steps-{}", std::process::id()),
            interrupted: options.interrupted,
            log_json: false,
            progress: Box::new(move |progress| {
                let tens_of_s = progress.wall.as_ns() / 10_000_000_000;
                if tens_of_s > said {
                    said = tens_of_s;
                    let (at, of) = (progress.virtual_time.as_s_f64(), progress.planned);
                    warn(format!("chronyd: virtual {at:.0} of {of}"));
                }
            }),
            warn: warn_of_run,
        },
    )
    .map_err(ChronydError::Run)?;
    match summary.end {
        End::Reached => {}
        End::Interrupted => return Err(ChronydError::Ended("stopped from outside".into())),
        End::Failed(failure) => return Err(ChronydError::Ended(failure.to_string())),
    }
    let directory = RunDirectory::open(&run).map_err(ChronydError::Results)?;
    let manifest = directory.manifest().map_err(ChronydError::Results)?;
    for doubt in manifest
        .degraded_modes
        .into_iter()
        .chain(manifest.untrusted)
    {
        (options.warn)(doubt.to_string());
    }
    hosts
        .iter()
        .map(|host| host.row(&directory, &run))
        .collect()
}

/// A host of the scenario, with its platform, mode and interval.
struct Host {
    name: String,
    platform: &'static Platform,
    client: Client,
    interval: Duration,
}

/// Returns all hosts. Intervals are those of the paper; for the daemon, the nearest powers of two
/// and one between them.
fn hosts() -> Vec<Host> {
    let mut hosts = Vec::new();
    for (index, platform) in PLATFORMS.iter().enumerate() {
        let once = platform
            .paper
            .map(|(interval, ..)| (Client::Once, interval));
        let daemon = POLLS.map(|poll| (Client::Daemon, Duration::from_s(1 << poll)));
        for (client, interval) in once.into_iter().chain(daemon) {
            let letter = match client {
                Client::Once => 'q',
                Client::Daemon => 'd',
            };
            hosts.push(Host {
                name: format!("p{index}-{letter}{:.0}", interval.as_s_f64()),
                platform,
                client,
                interval,
            });
        }
    }
    hosts
}

fn scenario(hosts: &[Host], chronyd: &Path, seed: u64, questions: u32) -> String {
    let longest = hosts.iter().map(|host| host.interval).max();
    let duration_s = longest.map_or(0.0, Duration::as_s_f64) * f64::from(questions) + 60.0;
    let mut text = format!(
        "schema = \"timeloom/1\"\nname = \"ntp-steps\"\nseed = {seed}\n\
         time = {{ duration = \"{duration_s} s\", mode = \"skip\", start = \"2024-01-01T00:00:00Z\" }}\n\
         [network]\n[system]\nswitches = [\"s1\"]\nlinks = [\n    {{ between = [\"server\", \"s1\"] }},\n"
    );
    for host in hosts {
        let jitter_ns = (host.platform.queueing.as_ns() as f64 * 12f64.sqrt()).round();
        let _ = writeln!(
            text,
            "    {{ between = [\"{}\", \"s1\"], jitter = \"{jitter_ns} ns\" }},",
            host.name
        );
    }
    text.push_str("]\n");
    let chronyd = chronyd.display().to_string();
    let mut add = |name: &str, number: usize, clock: &str, script: &str, arguments: &[String]| {
        let essential = clock.is_empty();
        let arguments: Vec<String> = ["sh", "-c", script, "sh", &chronyd]
            .into_iter()
            .map(str::to_owned)
            .chain(arguments.iter().cloned())
            .map(|argument| format!("{argument:?}"))
            .collect();
        let _ = write!(
            text,
            "[system.hosts.{name}]\naddress = \"10.0.0.{number}/24\"\n{clock}\
             [[system.hosts.{name}.programs]]\nname = \"{name}-chronyd\"\nessential = {essential}\n\
             start = \"{} s\"\nrun = [{}]\n",
            if essential { 0 } else { 2 },
            arguments.join(", ")
        );
    };
    add("server", 1, "", SERVER, &[]);
    for (index, host) in hosts.iter().enumerate() {
        // The oscillator is that of the model; its constant error is that of the platform.
        let clock = format!(
            "clock = {{ frequency = \"{} ppt\", wander = \"2 ppb\", jitter = \"20 ppb\" }}\n",
            host.platform.drift.as_ppt()
        );
        let interval_s = host.interval.as_s_f64();
        let (script, arguments) = match host.client {
            Client::Once => (ONCE, [questions.to_string(), interval_s.to_string()]),
            Client::Daemon => (
                DAEMON,
                [
                    interval_s.log2().to_string(),
                    (interval_s * f64::from(questions)).to_string(),
                ],
            ),
        };
        add(&host.name, index + 2, &clock, script, &arguments);
    }
    text
}

impl Host {
    fn row(&self, run: &RunDirectory, path: &Path) -> Result<ChronydRow, ChronydError> {
        let name = format!("{}-chronyd", self.name);
        let file = path.join(format!("logs/{name}.log"));
        let log = run.open_log(&name).map_err(ChronydError::Results)?;
        let log =
            std::io::read_to_string(log).map_err(|error| ChronydError::Io(file.clone(), error))?;
        let all: Vec<(f64, f64)> = log.lines().filter_map(correction).collect();
        // The first half of the corrections is not counted, nor are corrections after a lost
        // answer.
        let counted_from = (all.len() / 2).max(1);
        let longest_s = match self.client {
            Client::Once => self.interval.as_s_f64() * 1.5 + 5.0,
            // A daemon also learns from answers after which it makes no correction.
            Client::Daemon => f64::INFINITY,
        };
        let (mut sizes_ms, mut discarded) = (Vec::new(), 0);
        for pair in all.windows(2).skip(counted_from - 1) {
            if pair[1].0 - pair[0].0 > longest_s {
                discarded += 1;
            } else {
                sizes_ms.push(pair[1].1.abs() * 1e3);
            }
        }
        if sizes_ms.len() < 2 {
            return Err(ChronydError::Ended(format!(
                "{}: chronyd made only {} corrections; see {}",
                self.name,
                all.len(),
                file.display()
            )));
        }
        let (from, until) = (all[counted_from].0, all[all.len() - 1].0);
        let name = format!("{}.clock.offset", self.name);
        let series = run.series(&[&name]).map_err(ChronydError::Results)?;
        let offsets_ms: Vec<f64> = series
            .iter()
            .flat_map(|series| &series.samples)
            .filter(|(at, _)| (from..=until.max(from + 1.0)).contains(&(at.as_ns() as f64 / 1e9)))
            .map(|(_, offset_s)| offset_s.abs() * 1e3)
            .collect();
        let mean_ms = mean(&sizes_ms);
        let squares: f64 = sizes_ms.iter().map(|ms| (ms - mean_ms).powi(2)).sum();
        Ok(ChronydRow {
            platform: self.platform,
            client: self.client,
            interval: self.interval,
            mean_ms,
            deviation_ms: (squares / (sizes_ms.len() as f64 - 1.0)).sqrt(),
            greatest_ms: sizes_ms.iter().copied().fold(0.0, f64::max),
            corrections: sizes_ms.len(),
            discarded,
            failures: log.matches(FAILED).count(),
            true_mean_ms: mean(&offsets_ms),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the virtual time and the size of the correction in a line of a log, both in seconds;
/// `None` for other lines.
fn correction(line: &str) -> Option<(f64, f64)> {
    let (stamp, text) = line.strip_prefix('[')?.split_once("] ")?;
    let at_s = stamp.trim().parse().ok()?;
    if let Some((_, rest)) = text.split_once("System clock wrong by ") {
        return Some((at_s, rest.split(' ').next()?.parse().ok()?));
    }
    // Columns of the tracking log: date, time, source, stratum of the source, frequency, skew,
    // offset.
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() >= 14 && fields[2] == "10.0.0.1" {
        return Some((at_s, fields[6].parse().ok()?));
    }
    None
}

/// Finds chronyd on the PATH, in Debian's directory for root's programs, or unpacked for the tests.
fn find_chronyd() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", ".tools/chrony/usr/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|folder| folder.join("chronyd"))
        .find(|file| file.is_file())
        .and_then(|file| file.canonicalize().ok())
}

/// Text that the script [`ONCE`] prints if chronyd fails.
const FAILED: &str = "chronyd ended with status";

/// Binary logarithms of the daemon's intervals: 8, 64 and 512 s.
const POLLS: [u32; 3] = [3, 6, 9];

/// Shell script that runs the server. Argument: path of chronyd.
const SERVER: &str = r#"d=$(mktemp -d); trap 'rm -rf "$d"' EXIT
"$1" -d -d "local stratum 1" "allow 10.0.0.0/24" "pidfile $d/pid" "bindcmdaddress /" "cmdport 0" "user root" &
wait $!"#;

/// Shell script for [`Client::Once`]. Arguments: path of chronyd, number of requests, seconds
/// between them.
const ONCE: &str = r#"d=$(mktemp -d); trap 'rm -rf "$d"' EXIT
for i in $(seq "$2"); do
    "$1" -q "server 10.0.0.1 iburst maxsamples 1" "pidfile $d/pid" "bindcmdaddress /" "cmdport 0" "user root" ||
        echo "chronyd ended with status $?"
    sleep "$3"
done"#;

/// Shell script for [`Client::Daemon`]. Arguments: path of chronyd, binary logarithm of the
/// interval, seconds until it ends. The tracking log is a pipe, so that its lines are in the run's
/// log at once.
const DAEMON: &str = r#"d=$(mktemp -d); trap 'rm -rf "$d"' EXIT
mkfifo "$d/tracking.log"; cat "$d/tracking.log" &
"$1" -d -d "server 10.0.0.1 iburst minpoll $2 maxpoll $2" "makestep 0.01 3" "logdir $d" "log tracking" \
    "pidfile $d/pid" "bindcmdaddress /" "cmdport 0" "user root" &
daemon=$!
sleep "$3"
kill $daemon
wait"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_are_found_in_the_output_of_chronyd() {
        let once =
            "[  602.544494] 2024-01-01T00:10:02Z System clock wrong by -0.009752 seconds (step)";
        assert_eq!(correction(once), Some((602.544494, -0.009752)));
        let tracking = "[  521.127256] 2024-01-01 00:08:41 10.0.0.1         2     34.501     17.286  \
                        1.714e-02 N  1  6.502e-04  1.540e-08  3.196e-03  6.574e-04  5.136e+02";
        assert_eq!(correction(tracking), Some((521.127256, 0.01714)));
        for none in [
            "[    2.146180] 2024-01-01 00:00:02 0.0.0.0          0      0.000 1000000.000  0.000e+00 ?  0  \
             0.000e+00  0.000e+00  1.000e+00  1.000e+00  1.500e+00",
            "[  521.127167] 2024-01-01T00:08:41Z System clock was stepped by -0.017145 seconds",
            "[    6.410135] 2024-01-01T00:00:06Z Selected source 10.0.0.1",
            "",
        ] {
            assert_eq!(correction(none), None, "{none}");
        }
    }

    #[test]
    fn the_scenario_is_one() {
        let text = scenario(&hosts(), Path::new("/usr/sbin/chronyd"), 7, 20);
        let plan = timeloom_scenario::parse(&text, "ntp-steps.toml", &[]);
        let plan = plan.unwrap_or_else(|errors| panic!("{}\n{text}", errors.render(false)));
        assert_eq!(plan.system.hosts.len(), 19);
        assert_eq!(plan.time.duration, Duration::from_s(12_060));
    }
}
