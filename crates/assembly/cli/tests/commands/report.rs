//! Tests of `timeloom report`, on artificial runs.

use std::path::Path;

use crate::support::{Scratch, timeloom};
use timeloom_results::{LabelRow, Manifest, Outcome, RunDirectory, SignalRow};
use timeloom_time::{Duration, Instant};

/// Way in which an artificial run ended.
#[derive(PartialEq)]
enum End {
    Done,
    Killed,
}

const SCENARIO: &str = r#"
schema = "timeloom/1"
name = "tank"
time.duration = "2 s"
system.hosts.a.address = "10.0.0.1/24"
system.hosts.b.address = "10.0.0.2/24"
system.switches = ["s1"]
system.links = [{ between = ["a", "s1"] }, { between = ["b", "s1"] }]
simulation.plants.tank = { run = ["tank"], step = "1 s", record = { signals = ["level", "inflow"] } }
attack = [{ id = "dos", at = "1 s", host = "b", enabled = ATTACK }]
[[panel]]
title = "Level of the tank"
y_label = "Level"
signals = [{ name = "tank.level" }]
reference = [{ at = 1.5, label = "wanted" }]
"#;

fn make_run(path: &Path, scenario: Option<&str>, attack: bool, end: End) {
    let run = RunDirectory::create(path).unwrap();
    let mut manifest = Manifest::begin("tank", 7, Instant::ZERO, b"");
    manifest.virtual_duration = Duration::from_s(2);
    run.write_manifest(&manifest).unwrap();
    if let Some(scenario) = scenario {
        let text = scenario.replace("ATTACK", if attack { "true" } else { "false" });
        run.write_scenario(&text).unwrap();
    }
    let recorder = run.recorder().unwrap();
    for second in 0..3 {
        for (name, value, unit) in [("level", 1.0, "m"), ("inflow", 0.1, "m3/s")] {
            let row = SignalRow {
                t_virtual: Instant::from_ns(second * 1_000_000_000),
                t_wall: Instant::from_ns(second),
                host: "local".into(),
                source: "tank".into(),
                name: name.into(),
                value: value + second as f64,
                unit: unit.into(),
            };
            recorder.signal(&row).unwrap();
        }
    }
    if attack {
        let row = LabelRow {
            start: Instant::from_ns(1_000_000_000),
            end: Instant::FAR_FUTURE,
            technique: "T0814".into(),
            target: "b".into(),
            attack: "dos".into(),
        };
        recorder.label(&row).unwrap();
    }
    if end == End::Done {
        recorder.finish().unwrap();
        manifest.outcome = Outcome::Done;
        run.write_manifest(&manifest).unwrap();
    }
}

#[test]
fn two_runs_are_drawn_over_each_other() {
    let scratch = Scratch::new("report");
    make_run(&scratch.path("calm"), Some(SCENARIO), false, End::Done);
    make_run(&scratch.path("dos"), Some(SCENARIO), true, End::Done);
    let with = format!("DoS = sudden={}", scratch.text("dos"));
    let calm = scratch.text("calm");
    let ended = timeloom(&["report", &calm, "--with", &with]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, format!("{calm}/report.html\n"));
    assert_eq!(ended.err, "");
    let html = std::fs::read_to_string(scratch.path("calm/report.html")).unwrap();
    for part in [
        "Level of the tank",
        "wanted",
        "no attack",
        "DoS = sudden",
        "2 hosts, 1 switch, plant tank, 2 s of virtual time, seed 0.",
        "dos T0814",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("m3/s"), "only what the panels ask for");
}

#[test]
fn a_killed_run_is_made_whole_and_the_report_goes_where_asked() {
    let scratch = Scratch::new("report-killed");
    make_run(&scratch.path("killed"), Some(SCENARIO), true, End::Killed);
    let (killed, file) = (scratch.text("killed"), scratch.text("there.html"));
    let ended = timeloom(&["report", &killed, "-o", &file, "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.objects(), [serde_json::json!({ "report": file })]);
    assert!(ended.err.contains("7 rows were recovered"), "{}", ended.err);
    assert!(scratch.path("killed/signals.parquet").exists());
    let html = std::fs::read_to_string(scratch.path("there.html")).unwrap();
    assert!(html.contains("dos at 1 s"), "labelled by its attack");
    assert!(!scratch.path("killed/report.html").exists());
}

#[test]
fn without_a_usable_scenario_all_units_are_drawn() {
    let scratch = Scratch::new("report-bare");
    for (name, scenario) in [("none", None), ("broken", Some("schema = "))] {
        make_run(&scratch.path(name), scenario, false, End::Done);
        let ended = timeloom(&["report", &scratch.text(name)]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.err.contains("cannot be used"), "{}", ended.err);
        let html = std::fs::read_to_string(scratch.path(name).join("report.html")).unwrap();
        assert!(html.contains("Signals in m<") && html.contains("Signals in m3/s"));
    }
}

#[test]
fn the_proof_compares_groups_of_runs() {
    let scratch = Scratch::new("report-proof");
    let runs = ["main", "on0", "on50", "off0"];
    for name in runs {
        make_run(&scratch.path(name), Some(SCENARIO), false, End::Done);
    }
    let [main, on0, on50, off0] = runs.map(|name| scratch.text(name));
    let ended = timeloom(&[
        "report",
        &main,
        "--proof-on",
        &format!("solver +0={on0}"),
        "--proof-on",
        &format!("solver +50 ms={on50}"),
        "--proof-off",
        &format!("solver +0={off0}"),
        "--proof-signal",
        "tank.inflow",
        "--proof-tolerance",
        "0.5",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let html = std::fs::read_to_string(scratch.path("main/report.html")).unwrap();
    assert!(html.contains("solver +50 ms") && html.contains("tank.inflow"));
}

#[test]
fn the_users_mistakes_are_told_apart() {
    let scratch = Scratch::new("report-bad");
    make_run(&scratch.path("run"), Some(SCENARIO), false, End::Done);
    let (run, nowhere) = (scratch.text("run"), scratch.text("nowhere"));
    let same = format!("no attack={run}");
    let absent = format!("x={nowhere}");
    let unwritable = scratch.text("no/such/directory.html");
    for (arguments, code, message) in [
        (&[&*nowhere][..], 2, "is not a run directory"),
        (&[&run, "--with", &run], 2, "write LABEL=DIR"),
        (&[&run, "--with", &absent], 2, "is not a run directory"),
        (&[&run, "--proof-on", &absent], 2, "is not a run directory"),
        (
            &[&run, "--with", &same],
            2,
            "two runs are called `no attack`",
        ),
        (&[&run, "--proof-tolerance", "nan"], 2, "write a number"),
        (&[&run, "-o", &unwritable], 1, "No such file or directory"),
    ] {
        let ended = timeloom(&[&["report"], arguments].concat());
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(message), "{message}: {}", ended.err);
        assert_eq!(ended.out, "");
    }
}
