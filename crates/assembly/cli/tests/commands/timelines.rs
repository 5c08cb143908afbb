//! Timelines of hosts in scenarios: real chronyd, real ptp4l and a peer as sources of a
//! host whose crystal is off. True time lies in every interval, however time passes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use timeloom_results::RunDirectory;

use crate::support::{Scratch, root, timeloom};

const TIMELINES: [&str; 3] = ["plant", "ntp", "ptp"];

/// A run of the example with changes; ended when this is dropped.
struct Run {
    child: Child,
    name: String,
    directory: PathBuf,
}

impl Run {
    fn start(scratch: &Scratch, name: &str, every: &str, sets: &[&str]) -> Self {
        let name = format!("timelines-{name}-{}", std::process::id());
        let directory = scratch.path("run");
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command
            .args(["run", "examples/timelines/timelines.toml", "--name", &name])
            .arg("-o")
            .arg(&directory)
            .current_dir(root())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
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
        }
    }

    /// Has the session do something; false when it is over.
    fn command(&self, verb: &str, arguments: &[&str]) -> bool {
        let all = [&[verb, "--name", &self.name], arguments].concat();
        timeloom(&all).code == Some(0)
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

/// The samples of a signal of a timeline of the host `plc`.
fn samples(directory: &Path, timeline: &str, signal: &str) -> Vec<f64> {
    let run = RunDirectory::open(directory).expect("a run");
    let name = format!("plc.timeline.{timeline}.{signal}");
    let series = run.series(&[&name]).expect("recorded");
    let samples = series.iter().flat_map(|series| series.samples.iter());
    samples.map(|(_, value)| *value).collect()
}

/// That no reading broke its promise, and each timeline came to have an interval.
/// Returns how many readings had one, and prints how wide those were.
fn check(directory: &Path) -> usize {
    let mut readings = 0;
    for timeline in TIMELINES {
        let outside = samples(directory, timeline, "outside");
        let wrong = outside.iter().filter(|outside| **outside != 0.0).count();
        assert_eq!(wrong, 0, "of {} readings of {timeline}", outside.len());
        let statuses = samples(directory, timeline, "status");
        assert_eq!(statuses.last(), Some(&OK), "{timeline}");
        let mut widths = samples(directory, timeline, "half_width");
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

#[test]
fn the_example_passes_and_says_how_the_timelines_came_to_be() {
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
    // The daemon is gone, and so is what it was met by.
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
        "time.duration=\"30 s\"",
        "check=[]",
    ];
    let run = Run::start(&scratch, "disturbed", "10 ms", &sets);
    let directory = disturb(run, true);
    check(&directory);
    for timeline in TIMELINES {
        let statuses = samples(&directory, timeline, "status");
        assert!(
            statuses.contains(&DISRUPTED),
            "{timeline} did not see the hold"
        );
    }
}

/// The whole proof, of a million readings: `make proof-timeline`.
#[test]
#[ignore = "takes some minutes; `make proof-timeline` runs it"]
fn a_million_readings_hold_what_they_promise() {
    for (name, mode, dilation) in [("skip", "skip", "1"), ("virtual", "virtual", "0.2")] {
        let scratch = Scratch::new(&format!("timelines-proof-{name}"));
        let mode = format!("time.mode=\"{mode}\"");
        let dilation = format!("time.dilation={dilation}");
        let sets = [&mode, &dilation, "time.duration=\"190 s\"", "check=[]"];
        let run = Run::start(&scratch, name, "1 ms", &sets);
        let directory = disturb(run, false);
        println!("{name}: {} readings with an interval", check(&directory));
    }
}

/// Pauses the run, dilates it and, if so asked, holds one host, until some virtual time
/// before its end; then lets it end.
fn disturb(mut run: Run, hosts: bool) -> PathBuf {
    let directory = run.directory.clone();
    for turn in 0u64.. {
        if run.is_over() {
            break;
        }
        let lengths_ms = [3, 40, 11, 1, 90, 23];
        let length = Duration::from_millis(lengths_ms[turn as usize % lengths_ms.len()]);
        run.command("pause", &[]);
        std::thread::sleep(length);
        run.command("resume", &[]);
        if hosts {
            run.command("dilate", &[["0.5", "3", "1"][turn as usize % 3]]);
            // Early, so that all are in step again at the end.
            if turn == 8 {
                run.command("pause", &["--host", "plc"]);
                std::thread::sleep(2 * length);
                run.command("resume", &["--host", "plc"]);
            }
        }
        std::thread::sleep(Duration::from_millis(150));
    }
    assert!(run.end().success());
    directory
}

#[test]
fn in_granted_time_too() {
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

/// The numbers of the statuses, as on the page.
const OK: f64 = 1.0;
const DISRUPTED: f64 = 4.0;
