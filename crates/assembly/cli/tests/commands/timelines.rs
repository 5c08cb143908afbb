//! Timelines of hosts in scenarios. Real chronyd, real ptp4l and a peer are the sources of a
//! host whose oscillator has a frequency error. Every interval must contain true time, however time
//! passes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use timeloom_engine::Random;
use timeloom_results::RunDirectory;
use timeloom_test_support::eventually;

use crate::support::{Scratch, root, timeloom};

const TIMELINES: [&str; 3] = ["plant", "ntp", "ptp"];

/// Run of the example with changes, which is ended when the value is dropped.
struct Run {
    child: Child,
    name: String,
    directory: PathBuf,
    /// Path of the file with the run's stderr.
    said: PathBuf,
}

impl Run {
    fn start(scratch: &Scratch, name: &str, every: &str, sets: &[&str]) -> Self {
        let name = format!("timelines-{name}-{}", std::process::id());
        let directory = scratch.path("run");
        let said = scratch.path("said");
        let file = std::fs::File::create(&said).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command
            .args(["run", "examples/timelines/timelines.toml", "--name", &name])
            .arg("-o")
            .arg(&directory)
            .current_dir(root())
            .stdout(Stdio::null())
            .stderr(file);
        for timeline in TIMELINES {
            let set = format!("system.hosts.plc.timelines.{timeline}.every=\"{every}\"");
            command.args(["--set", &set]);
        }
        for set in sets {
            command.args(["--set", set]);
        }
        Self {
            child: command.spawn().expect("our own program"),
            name,
            directory,
            said,
        }
    }

    /// Waits until the session takes requests. If the session ends before, panics with its output.
    fn wait_for_session(&mut self) {
        eventually("a session", || {
            let over = self.child.try_wait().expect("our own child");
            let said = || std::fs::read_to_string(&self.said).unwrap_or_default();
            assert!(over.is_none(), "the run ended: {over:?}\n{}", said());
            self.command("query", &[])
        });
    }

    /// Sends a request to the session. Returns false if the session is over.
    fn command(&self, verb: &str, arguments: &[&str]) -> bool {
        let all = [&[verb, "--name", &self.name], arguments].concat();
        timeloom(&all).code == Some(0)
    }

    /// Pauses the run for a moment and resumes it; if `dilates` is true, at another rate. The
    /// durations of the pause and of the interval to the next one are random.
    fn disturb(&self, random: &mut Random, turn: usize, dilates: bool) {
        let mut sleep = |most: Duration| {
            let most_us = u64::try_from(most.as_micros()).expect("a moment");
            std::thread::sleep(Duration::from_micros(random.below(most_us)));
        };
        self.command("pause", &[]);
        sleep(LONGEST_PAUSE);
        self.command("resume", &[]);
        if dilates {
            self.command("dilate", &[["0.5", "3", "1"][turn % 3]]);
        }
        sleep(FARTHEST_PAUSE);
    }

    /// Returns the virtual time since the start of the run, in seconds.
    fn virtual_s(&self) -> f64 {
        let answer = timeloom(&["query", "--json", "--name", &self.name]);
        // The session does not answer before it is ready.
        let at_ns = (answer.code == Some(0)).then(|| answer.objects()[0]["virtual_ns"].as_f64());
        at_ns.flatten().unwrap_or(0.0) / 1e9
    }

    /// Ends the run early. The results until then are kept.
    fn stop(mut self) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").arg(pid).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let ended = self.child.wait().expect("our own child");
        assert_eq!(ended.code(), Some(1), "stopped from outside");
    }

    fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_some()
    }

    fn end(mut self) -> std::process::ExitStatus {
        self.child.wait().expect("our own child")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the random generator for the pauses. The seed is printed, so that a failed test shows
/// it; `TIMELOOM_SEED=n` sets it.
fn pauses() -> Random {
    let set = std::env::var("TIMELOOM_SEED").ok();
    let seed = set.map_or(SEED, |text| {
        text.parse().expect("TIMELOOM_SEED is a number")
    });
    println!("pauses are drawn with TIMELOOM_SEED={seed}");
    Random::new(seed, 0)
}

const SEED: u64 = 13;

/// Upper limit of the duration of a pause. The mean is half of it.
const LONGEST_PAUSE: Duration = Duration::from_millis(56);

/// Upper limit of the time from the end of a pause to the next one. The mean is half of it.
const FARTHEST_PAUSE: Duration = Duration::from_millis(300);

/// Returns the samples of a signal of a timeline of the host `plc`.
fn samples(directory: &Path, timeline: &str, signal: &str) -> Vec<f64> {
    let run = RunDirectory::open(directory).expect("a run");
    let name = format!("plc.timeline.{timeline}.{signal}");
    let series = run.series(&[&name]).expect("recorded");
    let samples = series.iter().flat_map(|series| series.samples.iter());
    samples.map(|(_, value)| *value).collect()
}

/// Checks that every interval contained true time, and prints the widths. Returns the number of
/// readings that had an interval.
fn check_inside(directory: &Path) -> usize {
    let mut readings = 0;
    for timeline in TIMELINES {
        let outside = samples(directory, timeline, "outside");
        let wrong = outside.iter().filter(|outside| **outside != 0.0).count();
        assert_eq!(wrong, 0, "of {} readings of {timeline}", outside.len());
        let mut widths = samples(directory, timeline, "half_width");
        assert!(!widths.is_empty(), "{timeline} came to have an interval");
        widths.sort_by(f64::total_cmp);
        println!(
            "{timeline}: {} readings, {} with an interval, half of it {:.1} us in the middle, {:.1} us at most",
            outside.len(),
            widths.len(),
            widths[widths.len() / 2] * 1e6,
            widths[widths.len() - 1] * 1e6,
        );
        readings += widths.len();
    }
    readings
}

/// Performs [`check_inside`], and checks that the status of each timeline is `ok` in the end.
fn check(directory: &Path) -> usize {
    for timeline in TIMELINES {
        let statuses = samples(directory, timeline, "status");
        assert_eq!(statuses.last(), Some(&OK), "{timeline}");
    }
    check_inside(directory)
}

/// Checks that each timeline reports its disruption, even one that ended quickly.
fn check_seen(directory: &Path, between_s: (f64, f64)) {
    let run = RunDirectory::open(directory).expect("a run");
    let events = run.events().expect("recorded");
    for timeline in TIMELINES {
        let statuses = samples(directory, timeline, "status");
        assert!(
            statuses.contains(&DISRUPTED),
            "{timeline} did not see the hold"
        );
        let source = format!("timeline.{timeline}");
        let told = events.iter().any(|event| {
            let at_s = event.t_virtual.as_ns() as f64 / 1e9;
            &*event.host == "plc"
                && *event.source == *source
                && event.text.starts_with("ok → disrupted (")
                && (between_s.0..between_s.1).contains(&at_s)
        });
        assert!(told, "{timeline} did not say so: {events:?}");
    }
    let report = std::fs::read_to_string(directory.join("report.html")).expect("a report");
    assert!(report.contains("Detection by timelines of hosts"));
}

#[test]
fn the_example_passes_and_records_the_states_of_the_timelines() {
    let scratch = Scratch::new("timelines-example");
    let run = Run::start(&scratch, "example", "1 s", &[]);
    let directory = run.directory.clone();
    assert!(run.end().success());
    check(&directory);
    let run = RunDirectory::open(&directory).expect("a run");
    let events = run.events().expect("recorded");
    let told = |text: &str| {
        let of = |source: &str| source == "timeline.ptp";
        let mut events = events.iter();
        events
            .any(|event| of(&event.source) && &*event.kind == "status" && event.text.contains(text))
    };
    assert!(told("→ ok"));
    // The daemon has ended, and its sockets must be gone.
    let left = std::fs::read_dir(directory.join("timelines/plc")).expect("the run's own");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().ends_with(".sock"))
    );
    let report = std::fs::read_to_string(directory.join("report.html")).expect("a report");
    assert!(report.contains("From ptp4l"));
}

#[test]
fn true_time_is_inside_through_pauses_dilations_and_holds_of_the_host() {
    let scratch = Scratch::new("timelines-disturbed");
    let sets = [
        "time.mode=\"virtual\"",
        "time.duration=\"1000 s\"",
        "check=[]",
    ];
    let mut run = Run::start(&scratch, "disturbed", "10 ms", &sets);
    let directory = run.directory.clone();
    // The virtual time is late enough for the daemons to have settled; then the same time passes
    // again.
    let mut held = None;
    let mut pauses = pauses();
    for turn in 0.. {
        run.disturb(&mut pauses, turn, true);
        assert!(!run.is_over());
        match (held, run.virtual_s()) {
            (None, now) if now > 15.0 => {
                assert!(run.command("pause", &["--host", "plc"]));
                std::thread::sleep(Duration::from_millis(20));
                assert!(run.command("resume", &["--host", "plc"]));
                held = Some(run.virtual_s());
            }
            (Some(held), now) if now > held + 15.0 => break,
            _ => {}
        }
    }
    run.stop();
    check_inside(&directory);
    check_seen(&directory, (15.0, f64::INFINITY));
}

/// Holds the host for 20 ms. chronyd fits one line to its measurements from before and after the
/// hold, and states an error that ignores the hold. All instants of these runs are virtual and
/// exact.
///
/// Returns the last status of each timeline.
fn hold_for_20_ms(name: &str, sets: &[&str]) -> [Option<f64>; 3] {
    let scratch = Scratch::new(&format!("timelines-{name}"));
    let all = [
        "time.mode=\"stepped\"",
        "time.stepped={skip=true}",
        "time.duration=\"90 s\"",
        "check=[]",
    ];
    // The run continues for far longer than the disruption.
    let mut run = Run::start(&scratch, name, "10 s", &[&all, sets].concat());
    let directory = run.directory.clone();
    run.wait_for_session();
    for (verb, arguments) in [
        ("step", &["45 s"][..]),
        ("pause", &["--host", "plc"]),
        ("step", &["20 ms"]),
        ("resume", &["--host", "plc"]),
        ("step", &["45 s"]),
    ] {
        let asked = [&[verb, "--name", &run.name], arguments].concat();
        let ended = timeloom(&asked);
        assert_eq!(ended.code, Some(0), "{asked:?}: {}", ended.err);
    }
    assert!(run.end().success());
    check_inside(&directory);
    // Each daemon notices the hold when it next queries a source, which is at most two seconds
    // later.
    check_seen(&directory, (45.0, 48.0));
    TIMELINES.map(|timeline| samples(&directory, timeline, "status").last().copied())
}

/// Through its Unix socket chronyd is told to measure anew, and soon has new measurements.
#[test]
fn measurements_by_chronyd_before_a_hold_of_its_host_are_discarded() {
    assert_eq!(hold_for_20_ms("held", &[]), [Some(OK); 3]);
}

/// Over UDP chronyd accepts no commands, so it must not be trusted while it uses old measurements.
#[test]
fn a_chronyd_that_takes_no_orders_is_waited_for_after_a_hold_of_its_host() {
    let by_udp = "system.hosts.plc.timelines.ntp.sources=[{type=\"chrony\"}]";
    let [plant, ntp, ptp] = hold_for_20_ms("held-udp", &[by_udp]);
    assert_eq!([plant, ptp], [Some(OK); 2]);
    assert!(ntp == Some(OK) || ntp == Some(DISRUPTED), "{ntp:?}");
}

/// This is the complete test, with a million readings: `make proof-timeline`.
#[test]
#[ignore = "takes some minutes; `make proof-timeline` runs it"]
fn a_million_readings_contain_true_time() {
    let mut all = 0;
    for (name, mode, dilation) in [("skip", "skip", "1"), ("virtual", "virtual", "0.2")] {
        let scratch = Scratch::new(&format!("timelines-proof-{name}"));
        let mode = format!("time.mode=\"{mode}\"");
        let dilation = format!("time.dilation={dilation}");
        let sets = [&mode, &dilation, "time.duration=\"250 s\"", "check=[]"];
        let mut run = Run::start(&scratch, name, "1 ms", &sets);
        let directory = run.directory.clone();
        let mut pauses = pauses();
        for turn in 0.. {
            if run.is_over() {
                break;
            }
            run.disturb(&mut pauses, turn, false);
        }
        assert!(run.end().success());
        let readings = check(&directory);
        println!("{name}: {readings} readings with an interval");
        all += readings;
    }
    assert!(all > 1_000_000, "{all}");
}

/// Signals must show it if a server's clock is worse than stated, and if the requested accuracy
/// exceeds what a timeline can provide.
#[test]
fn wrong_readings_and_violated_accuracy_are_recorded() {
    let scratch = Scratch::new("timelines-wrong");
    let sets = [
        "time.duration=\"20 s\"",
        "check=[]",
        "system.hosts.server.clock.offset=\"10 ms\"",
        "system.hosts.plc.timelines.plant.accuracy=\"1 ns\"",
    ];
    let run = Run::start(&scratch, "wrong", "100 ms", &sets);
    let directory = run.directory.clone();
    assert!(run.end().success());
    let outside = samples(&directory, "plant", "outside");
    assert!(outside.contains(&1.0), "none of {} readings", outside.len());
    let violated = samples(&directory, "plant", "violated");
    assert!(!violated.is_empty() && violated.iter().all(|violated| *violated == 1.0));
}

#[test]
fn readings_contain_true_time_in_granted_time() {
    let scratch = Scratch::new("timelines-stepped");
    let sets = [
        "time.mode=\"stepped\"",
        "time.duration=\"20 s\"",
        "check=[]",
    ];
    let mut run = Run::start(&scratch, "stepped", "100 ms", &sets);
    while !run.is_over() {
        if !run.command("step", &["250 ms"]) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let directory = run.directory.clone();
    assert!(run.end().success());
    assert!(check(&directory) > 100);
}

/// Number of the status `ok` on the page.
const OK: f64 = 1.0;
const DISRUPTED: f64 = 4.0;
