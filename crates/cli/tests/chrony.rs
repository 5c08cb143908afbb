//! The real chronyd, unmodified, on a host whose crystal is off. The scenario
//! itself says how near to true time the clock must come.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use timeloom_results::RunDirectory;

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/chrony/chrony.toml"])
        .args(arguments)
        .arg("-o")
        .arg(directory)
        .current_dir(&root)
        .output()
        .expect("our own program")
}

fn offsets(directory: &Path, host: &str) -> Vec<f64> {
    let run = RunDirectory::open(directory).expect("a run");
    let name = format!("{host}.clock.offset");
    let series = run.series(&[&name]).expect("recorded");
    series
        .iter()
        .flat_map(|series| series.samples.iter().map(|(_, value)| *value))
        .collect()
}

#[test]
fn chronyd_disciplines_a_hosts_clock_and_not_the_machines() {
    let directory = std::env::temp_dir().join(format!("timeloom-chrony-{}", std::process::id()));
    let output = run(&directory, &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let log = fs::read_to_string(directory.join("logs/chronyd-client.log")).unwrap_or_default();
    assert!(output.status.success(), "{text}\n{log}");
    assert!(log.contains("Selected source 10.0.0.1"), "{log}");
    assert!(log.contains("System clock was stepped by -0.1"), "{log}");
    // Every call that chronyd makes about time is virtual.
    assert!(!text.contains("not virtualised"), "{text}");
    let report = fs::read_to_string(directory.join("report.html")).expect("a report");
    assert!(report.contains("Clocks of the hosts against true time"));
    assert!(report.contains(": believed error"));
    let offsets = offsets(&directory, "client");
    assert!(offsets.len() > 295, "one a second: {}", offsets.len());
    let worst = offsets[60..]
        .iter()
        .fold(0f64, |worst, o| worst.max(o.abs()));
    println!("within {:.1} µs of true time after a minute", worst * 1e6);
    fs::remove_dir_all(&directory).expect("our own");
}

/// Without chronyd the clock stays wrong, and the checks find that.
#[test]
fn without_a_daemon_the_clock_drifts_and_the_checks_fail() {
    let directory = std::env::temp_dir().join(format!("timeloom-drift-{}", std::process::id()));
    let output = run(
        &directory,
        &[
            "--set",
            "system.hosts.client.programs.chronyd-client.run=[\"sleep\", \"1000\"]",
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    // 300 s at 50 ppm, and what the temperature takes: 100 ms and 15 ms.
    let last = *offsets(&directory, "client").last().expect("recorded");
    assert!((0.113..0.116).contains(&last), "{last}");
    fs::remove_dir_all(&directory).expect("our own");
}
