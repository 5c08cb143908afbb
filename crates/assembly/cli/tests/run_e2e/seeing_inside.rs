//! Tests of what a user sees of a run that does not advance: `timeloom query --why`, and the log.

use serde_json::Value;

use crate::support::{Lab, POLL, Running, Scenario, timeloom};

/// Returns the causes because of which the run stands; empty if it does not answer.
fn causes(run: &Running<'_>) -> Vec<Value> {
    let status = run.control("query --why").unwrap_or_default();
    let causes = status["why"]["causes"].as_array().cloned();
    causes.unwrap_or_default()
}

#[test]
fn a_plant_that_computes_is_named_together_with_its_hold() {
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program('a', "client", POLL, "")
            .plant_with("{ slow_ms = 1500 }", "timeout = \"60 s\""),
    );
    let mut run = lab.start(&[]);
    run.wait_for("the plant is not named", |run| {
        let causes = causes(run);
        let holds = causes.iter().any(|cause| {
            let requester = cause["requester"].as_str().unwrap_or_default();
            cause["kind"] == "hold" && requester.starts_with("meter ")
        });
        let computes = causes
            .iter()
            .any(|cause| cause["kind"] == "component" && cause["component"] == "plant `world`");
        holds && computes
    });
    run.stop();
}

#[test]
fn a_hold_by_a_user_is_named_with_its_reason() {
    let lab = Lab::new(&Scenario::lasting("600 s"));
    let mut run = lab.start(&[]);
    run.wait_until(0.1);
    let (name, reason) = (lab.name(), "to look around");
    let why = format!("{} query --why \"$0\"", env!("CARGO_BIN_EXE_timeloom"));
    let held = timeloom(&[
        "hold", "--name", name, "--reason", reason, "--", "sh", "-c", &why, name,
    ]);
    let said = String::from_utf8_lossy(&held.stdout);
    assert!(said.contains("It stands because of:"), "{said}");
    assert!(said.contains(reason), "{said}");
    run.stop();
}

#[test]
fn a_spinning_program_of_a_run_is_named_with_its_host() {
    let spin = &["python3", "-c", "while True: pass"];
    let lab = Lab::new(&Scenario::lasting("600 s").program('b', "spin", spin, ""));
    let mut run = lab.start(&["time.mode=skip"]);
    run.wait_for("the program is not named", |run| {
        causes(run).iter().any(|cause| {
            cause["kind"] == "thread" && cause["program"] == "spin" && cause["host"] == "b"
        })
    });
    run.stop();
}

#[test]
fn the_log_of_a_run_has_its_spans_and_no_program_has_the_filter() {
    let show = &["sh", "-c", "echo log=${TIMELOOM_LOG-unset}; sleep 1000"];
    let scenario = Scenario::lasting("1 s")
        .program('a', "client", POLL, "")
        .program('b', "show", show, "essential = false")
        .plant("{}");
    let lab = Lab::new(&scenario);
    let run = lab.run_with_log("debug", &["--log-json"]).succeeded();
    let objects = run.stderr.lines().filter(|line| line.starts_with('{'));
    let objects: Vec<Value> = objects
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let has_span = |name: &str| objects.iter().any(|line| line["span"]["name"] == name);
    for span in [
        "launch", "exec", "hold", "pause", "release", "resume", "exchange",
    ] {
        assert!(has_span(span), "no span {span} in {}", run.output());
    }
    let phases = objects.iter().filter_map(|line| line["phase"].as_str());
    let phases: Vec<&str> = phases.collect();
    assert!(phases.contains(&"starting the plants"), "{phases:?}");
    assert_eq!(phases.last(), Some(&"running"));
    let log = std::fs::read_to_string(lab.run_path().join("logs/show.log"));
    let log = log.expect("the log can be read");
    assert!(log.contains("log=unset"), "{log}");
    let manifest = std::fs::read_to_string(lab.run_path().join("manifest.json"));
    let manifest = manifest.expect("the manifest can be read");
    assert!(!manifest.contains("TIMELOOM_LOG"), "{manifest}");
}
