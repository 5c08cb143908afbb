//! Example with a rogue clock in the network of two controllers. The controller that requires
//! signatures must keep its time. The other accepts the rogue's time and is misled.

use std::path::Path;
use std::process::Command;

use timeloom_results::RunDirectory;

use crate::support::{Scratch, root};

/// Runs the example. All of its checks must hold except one: the accuracy of a timeline also
/// depends on the machine, but the accuracy that it states does not.
fn run(directory: &Path, sets: &[&str]) {
    let timeloom = env!("CARGO_BIN_EXE_timeloom");
    let mut command = Command::new(timeloom);
    command
        .args([
            "run",
            "examples/timeline-under-attack/attack.toml",
            "--json",
            "-o",
        ])
        .arg(directory)
        .env("TIMELOOM", timeloom)
        .current_dir(root());
    for set in sets {
        command.args(["--set", set]);
    }
    let output = command.output().expect("our own program");
    let said = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(result["end"], "reached", "{result} {said}");
    let checks = result["checks"].as_array().expect("its checks");
    assert!(checks.iter().any(|check| check["name"] == ACCURACY));
    for check in checks.iter().filter(|check| check["applies"] == true) {
        assert!(
            check["passed"] == true || check["name"] == ACCURACY,
            "{check}"
        );
    }
}

const ACCURACY: &str = "signed-keeps-its-accuracy";

/// Returns the samples of a signal of a host's timeline: pairs of time in seconds and value.
fn samples(directory: &Path, host: &str, signal: &str) -> Vec<(f64, f64)> {
    let run = RunDirectory::open(directory).expect("a run");
    let name = format!("{host}.timeline.plant.{signal}");
    let series = run.series(&[&name]).expect("recorded");
    let samples = series.iter().flat_map(|series| series.samples.iter());
    samples
        .map(|(at, value)| ((*at - timeloom_time::Instant::ZERO).as_s_f64(), *value))
        .collect()
}

#[test]
fn an_unsigned_timeline_is_disrupted_before_it_is_wrong_and_a_signed_one_is_neither() {
    let scratch = Scratch::new("timeline-attack");
    let directory = scratch.path("attacked");
    run(&directory, &[]);
    let first = |signal: &str, is: &dyn Fn(f64) -> bool| {
        let all = samples(&directory, "plain", signal);
        let hit = all.iter().find(|(at, value)| *at > 30.0 && is(*value));
        hit.map(|(at, _)| *at)
    };
    let disrupted = first("status", &|status| status == 4.0).expect("it is disrupted");
    let wrong = first("outside", &|outside| outside == 1.0).expect("it is led astray");
    assert!(disrupted < wrong, "{disrupted} {wrong}");
    // The timeline reports status 2 if it receives no valid Sync, as on a busy machine. It must
    // never be misled, and must never contradict itself.
    let signed = samples(&directory, "signed", "status");
    let mut since = signed.iter().skip_while(|(_, status)| *status != 1.0);
    assert!(since.clone().next().is_some(), "it came to be in step");
    let amiss = since.find(|(_, status)| ![1.0, 2.0].contains(status));
    assert_eq!(amiss, None, "of the signed one");
    // The loss must not be permanent: messages that were missed are no reason to reject later ones.
    let mut late = signed.iter().filter(|(at, _)| *at > 60.0);
    assert!(late.any(|(_, status)| *status == 1.0), "in step again");

    run(&scratch.path("calm"), &["attack.rogue.enabled=false"]);
}
