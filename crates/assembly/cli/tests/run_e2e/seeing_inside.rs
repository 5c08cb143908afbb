//! Tests of what a user sees of a run that does not advance: `timeloom query --why`.

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
