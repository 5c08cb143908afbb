//! The real chronyd, unmodified, on a host whose oscillator has a frequency error. The scenario's
//! own checks state how close to true time the clock must come.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use timeloom_results::RunDirectory;
use timeloom_test_support::eventually;

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let output = command(directory).args(arguments).output();
    output.expect("our own program")
}

fn command(directory: &Path) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command
        .args(["run", "examples/chrony/chrony.toml", "-o"])
        .arg(directory)
        .current_dir(root);
    command
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
    // Every call of chronyd that carries time must be virtual.
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

/// Without chronyd the clock must stay wrong, and the checks must notice that.
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
    // The clock begins 100 ms ahead, and gains 15 ms in 300 s at 50 ppm. The temperature changes
    // that a little.
    let last = *offsets(&directory, "client").last().expect("recorded");
    assert!((0.113..0.116).contains(&last), "{last}");
    fs::remove_dir_all(&directory).expect("our own");
}

/// A machine is suspended for twenty seconds without a notification. Its clock must be behind by
/// exactly that time, and its chronyd must measure the difference and slew.
#[test]
fn chronyd_measures_the_suspension_of_its_host() {
    let directory = std::env::temp_dir().join(format!("timeloom-suspend-{}", std::process::id()));
    let mut run = command(&directory)
        .args(["--set", "time.duration=700 s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("our own program");
    let name = format!("run-{}", run.id());
    let control = |request: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(request)
            .args(["--json", "--name", &name])
            .output()
            .expect("our own program");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.success(), answer)
    };
    eventually(&name, || control(&["run-until", "300 s"]).0);
    for request in [
        &["pause", "--host", "client"][..],
        &["run-until", "320 s"],
        &["resume", "--host", "client"],
    ] {
        assert!(control(request).0, "{request:?}");
    }
    assert!(control(&["resume"]).0);
    let (_, answer) = control(&["query"]);
    let hosts = answer["hosts"].as_array().expect("its hosts");
    let behind_ns = |name: &str| {
        let host = hosts.iter().find(|host| host["name"] == name);
        host.and_then(|host| host["behind_ns"].as_i64())
    };
    assert_eq!(behind_ns("client"), Some(20_000_000_000), "{answer}");
    assert_eq!(behind_ns("server"), Some(0), "{answer}");
    // The scenario's own checks are only for hosts that are not suspended.
    assert_eq!(run.wait().expect("it ends").code(), Some(1));
    let log = fs::read_to_string(directory.join("logs/chronyd-client.log")).unwrap_or_default();
    let found = log.split("System clock wrong by ").nth(1);
    let found: Option<f64> = found.and_then(|rest| rest.split(' ').next()?.parse().ok());
    let off = found.map(|found| (found - 20.0).abs());
    // On a busy machine, chronyd takes delays of packets for an offset.
    assert!(off.is_some_and(|off| off < 1.0), "{log}");
    let offsets = offsets(&directory, "client");
    let least = offsets.iter().fold(0f64, |least, o| least.min(*o));
    let last = offsets.last().expect("recorded");
    println!("{least} s behind at most, {last} s at the end");
    assert!((-20.01..-19.99).contains(&least), "{least}");
    assert!(last.abs() < 0.1, "{last} after {least}");
    fs::remove_dir_all(&directory).expect("our own");
}
