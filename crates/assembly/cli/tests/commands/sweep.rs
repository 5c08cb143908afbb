//! Tests of `timeloom sweep`, with real, short runs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Ended, Scratch, timeloom};

/// Scenario with a program on one host, which fails if an argument says so.
const SCENARIO: &str = r#"
schema = "timeloom/1"
name = "short"
[time]
mode = "skip"
duration = "1 s"
[system]
switches = ["s"]
links = [{ between = ["a", "s"] }]
[system.hosts.a]
address = "10.0.0.1/24"
[[system.hosts.a.programs]]
name = "p"
run = ["sh", "-c", "test $CODE = 0 || exit $CODE; sleep 3600"]
env = { CODE = "0" }
"#;

const CODE: &str = "system.hosts.a.programs.p.env.CODE";

fn sweep(scratch: &Scratch, options: &[&str]) -> Ended {
    let scenario = scratch.path("short.toml");
    if !scenario.exists() {
        fs::write(&scenario, SCENARIO).unwrap();
    }
    let (scenario, directory) = (scratch.text("short.toml"), scratch.text("swept"));
    timeloom(&[&["sweep", &scenario, "-o", &directory, "--json"], options].concat())
}

fn result(ended: &Ended) -> Value {
    let objects = ended.objects();
    assert_eq!(objects.len(), 1, "{}{}", ended.out, ended.err);
    objects[0].clone()
}

/// Returns how each run ended.
fn ends(result: &Value) -> Vec<&str> {
    let runs = result["runs"].as_array().expect("runs");
    runs.iter()
        .map(|run| run["ended"].as_str().expect("a word"))
        .collect()
}

fn manifest(scratch: &Scratch, run: &str) -> Value {
    let path = scratch
        .path("swept")
        .join("runs")
        .join(run)
        .join("manifest.json");
    serde_json::from_slice(&fs::read(path).expect("a manifest")).unwrap()
}

#[test]
fn every_combination_is_run_with_every_seed_and_failures_are_shown() {
    let scratch = Scratch::new("sweep-all");
    let set = format!("{CODE}=\"0\",\"3\"");
    let ended = sweep(&scratch, &["--set", &set, "--seeds", "2"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let result = result(&ended);
    assert_eq!(ends(&result), ["passed", "passed", "failed", "failed"]);
    let culprit = result["runs"][2]["culprit"].as_str().unwrap();
    assert!(culprit.contains("status 3"), "{culprit}");
    assert_eq!(manifest(&scratch, "0002_CODE=-0-_seed=2")["seed"], 2);
    let page = fs::read_to_string(scratch.path("swept/sweep.html")).expect("the page");
    assert!(page.contains("2 of 4 runs passed") && page.contains("Runs that did not pass"));
    assert!(
        fs::metadata(scratch.path("swept/sweep.parquet"))
            .unwrap()
            .len()
            > 0
    );
}

#[test]
fn a_sweep_goes_on_where_it_was_stopped_and_fails_anew_only_when_asked() {
    let scratch = Scratch::new("sweep-again");
    let set = format!("{CODE}=\"0\",\"3\"");
    let options = ["--set", &set, "--seeds", "2"];
    sweep(&scratch, &options);
    let names = [
        "0001_CODE=-0-_seed=1",
        "0002_CODE=-0-_seed=2",
        "0003_CODE=-3-_seed=1",
    ];
    let begun = || names.map(|name| manifest(&scratch, name)["started"].clone());
    let before = begun();

    // One run was stopped while it was in progress, and one had not begun.
    let runs = scratch.path("swept").join("runs");
    let path = runs.join(names[1]).join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"done\"", "\"interrupted\"")).unwrap();
    remove(&runs.join("0004_CODE=-3-_seed=2"));
    let again = result(&sweep(&scratch, &options));
    assert_eq!(again["kept"], 2);
    assert_eq!(ends(&again), ["passed", "passed", "failed", "failed"]);
    let after = begun();
    assert_eq!(
        (&before[0], &before[2]),
        (&after[0], &after[2]),
        "they were kept"
    );
    assert_ne!(before[1], after[1], "it was run again");

    let retried = [&options[..], &["--retry-failed"]].concat();
    assert_eq!(result(&sweep(&scratch, &retried))["kept"], 2);
    assert_ne!(begun()[2], after[2], "failed runs were asked for");
}

#[test]
fn another_sweep_is_not_mixed_into_a_directory() {
    let scratch = Scratch::new("sweep-mixed");
    sweep(&scratch, &["--seeds", "1"]);
    let other = sweep(&scratch, &["--seeds", "2"]);
    assert_eq!(other.code, Some(2));
    assert!(other.err.contains("another sweep"), "{}", other.err);
    fs::write(
        scratch.path("short.toml"),
        format!("{SCENARIO}\n# changed\n"),
    )
    .unwrap();
    assert_eq!(sweep(&scratch, &["--seeds", "1"]).code, Some(2));

    let full = Scratch::new("sweep-full");
    fs::create_dir_all(full.path("swept")).unwrap();
    fs::write(full.path("swept/mine"), "").unwrap();
    let refused = sweep(&full, &[]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("something other than a sweep"),
        "{}",
        refused.err
    );
}

#[test]
fn mistakes_are_found_before_anything_is_run() {
    let scratch = Scratch::new("sweep-mistakes");
    let ended = sweep(&scratch, &["--set", "time.duration=1 s,nonsense"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("with time.duration=nonsense"),
        "{}",
        ended.err
    );
    assert!(!scratch.path("swept").exists());
    let stepped = sweep(&scratch, &["--set", "time.mode=stepped"]);
    assert_eq!(stepped.code, Some(2));
    assert!(stepped.err.contains("cannot be swept"), "{}", stepped.err);
    assert_eq!(
        sweep(&scratch, &["--seeds", "2", "--set", "seed=1,2"]).code,
        Some(2)
    );
}

/// Scenario with a simulated network that carries more than a hundred million datagrams per second.
/// No machine computes that in real time.
const TOO_MUCH: &str = r#"
schema = "timeloom/1"
name = "busy"
time = { duration = "300 ms" }
[system]
links = [{ between = ["a", "net-switch"] }]
[system.hosts.a]
address = "10.77.0.2/24"
[network]
[[network.generate]]
name = "net"
shape = "star"
size = 2
access = { rate = "100 Gbit/s" }
[[network.traffic]]
from = "net-h0"
to = "net-h1"
kind = "udp"
bytes = 18
rate = "100 Gbit/s"
"#;

#[test]
fn runs_that_are_not_to_be_trusted_are_told_from_failures_and_have_the_exit_code() {
    let scratch = Scratch::new("sweep-untrusted");
    fs::write(scratch.path("short.toml"), TOO_MUCH).unwrap();
    let ended = sweep(&scratch, &["--seeds", "2"]);
    assert_eq!(ended.code, Some(4), "{}{}", ended.out, ended.err);
    let told = result(&ended);
    assert_eq!(ends(&told), ["untrusted", "untrusted"]);
    assert_eq!(told["passed"], false);
    let why = told["runs"][0]["culprit"].as_str().unwrap();
    assert!(why.contains("too slow"), "{why}");
    let page = fs::read_to_string(scratch.path("swept/sweep.html")).expect("the page");
    assert!(page.contains("0 of 2 runs passed") && page.contains("untrusted"));

    // The runs have results, so they must be kept unless a repetition is requested.
    let begun = || manifest(&scratch, "0001_seed=1")["started"].clone();
    let first = begun();
    let kept = sweep(&scratch, &["--seeds", "2"]);
    assert_eq!(kept.code, Some(4), "{}", kept.err);
    assert_eq!(
        (&result(&kept)["kept"], begun()),
        (&2.into(), first.clone())
    );
    let again = sweep(&scratch, &["--seeds", "2", "--retry-failed"]);
    assert_eq!(again.code, Some(4), "{}", again.err);
    assert_ne!(begun(), first);

    // A failed run takes precedence over an untrusted one. It is long enough for the failure of the
    // program to be noticed before its end on any machine.
    let program = "[[system.hosts.a.programs]]\nname = \"p\"\nrun = [\"false\"]\n";
    let worse = Scratch::new("sweep-worse");
    let scenario = TOO_MUCH.replace("300 ms", "60 s") + program;
    fs::write(worse.path("short.toml"), scenario).unwrap();
    let ended = sweep(&worse, &[]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    assert_eq!(ends(&result(&ended)), ["failed"]);
}

fn remove(directory: &Path) {
    fs::remove_dir_all(directory).unwrap();
}
