//! The example of a rogue clock in the network of two controllers: the one that asks
//! for signatures keeps its time, the other is told, and then led astray.

use std::path::Path;
use std::process::Command;

use timeloom_results::RunDirectory;

use crate::support::{Scratch, passed, root};

fn run(directory: &Path, sets: &[&str]) {
    let timeloom = env!("CARGO_BIN_EXE_timeloom");
    let mut command = Command::new(timeloom);
    command
        .args(["run", "examples/timeline-under-attack/attack.toml", "-o"])
        .arg(directory)
        .env("TIMELOOM", timeloom)
        .current_dir(root());
    for set in sets {
        command.args(["--set", set]);
    }
    let output = command.output().expect("our own program");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(passed(output.status), "{said}");
}

/// The signal's samples of a host's timeline, with their times.
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
    let signed = samples(&directory, "signed", "status");
    let later = signed.iter().filter(|(at, _)| *at > 15.0);
    assert!(later.map(|(_, status)| *status).all(|status| status == 1.0));

    run(&scratch.path("calm"), &["attack.rogue.enabled=false"]);
}
