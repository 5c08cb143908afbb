//! Tests of `timeloom compare`, on artificial runs.

use std::path::Path;

use crate::support::{Scratch, timeloom};
use timeloom_results::{Manifest, Outcome, RunDirectory, SignalRow};
use timeloom_time::Instant;

/// Creates a run of three seconds, with other signals and a level that rises by `slope` per second.
fn make_run(path: &Path, slope: f64, others: &[&str]) {
    let run = RunDirectory::create(path).unwrap();
    let mut manifest = Manifest::begin("tank", 7, Instant::ZERO, b"");
    let recorder = run.recorder().unwrap();
    for second in 0..4_i64 {
        let level = ("level", slope * second as f64);
        let others = others.iter().map(|name| (*name, 1.0));
        for (name, value) in std::iter::once(level).chain(others) {
            let row = SignalRow {
                t_virtual: Instant::from_ns(second * 1_000_000_000),
                t_wall: Instant::from_ns(second),
                host: "local".into(),
                source: "tank".into(),
                name: name.into(),
                value,
                unit: "m".into(),
            };
            recorder.signal(&row).unwrap();
        }
    }
    recorder.finish().unwrap();
    manifest.outcome = Outcome::Done;
    run.write_manifest(&manifest).unwrap();
}

/// Creates two runs whose levels differ by 0.3 m at the end, over a range of 3 m.
fn two(scratch: &Scratch) -> [String; 2] {
    make_run(&scratch.path("a"), 1.0, &[]);
    make_run(&scratch.path("b"), 1.1, &[]);
    ["a", "b"].map(|name| scratch.text(name))
}

#[test]
fn a_threshold_decides_the_exit_code() {
    let scratch = Scratch::new("compare-threshold");
    let [a, b] = two(&scratch);
    let code = |options: &[&str]| timeloom(&[&["compare", &a, &b], options].concat()).code;
    assert_eq!(code(&[]), Some(0));
    assert_eq!(code(&["--exact"]), Some(1));
    assert_eq!(code(&["--threshold", "0.31"]), Some(0));
    assert_eq!(code(&["--threshold", "0.29"]), Some(1));
    assert_eq!(code(&["--threshold", "11%"]), Some(0));
    assert_eq!(code(&["--threshold", "9%"]), Some(1));
    assert_eq!(
        code(&["--threshold", "9%", "--threshold", "tank.level=0.5"]),
        Some(0)
    );
    let same = timeloom(&["compare", &a, &a, "--exact", "--threshold", "0"]);
    assert_eq!(same.code, Some(0), "{}", same.out);
    assert!(same.out.contains("they agree"), "{}", same.out);
}

#[test]
fn table_and_page_state_the_difference_and_its_first_instant() {
    let scratch = Scratch::new("compare-table");
    let [a, b] = two(&scratch);
    let ended = timeloom(&["compare", &a, &b, "--threshold", "0.1"]);
    assert!(
        ended.out.contains("tank.level  m     0 to 3  0 to 3.3"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("PAST"), "{}", ended.out);
    assert!(
        ended.out.contains("first in signals of tank.level at 1 s"),
        "{}",
        ended.out
    );
    let page = std::fs::read_to_string(scratch.path("compare-a-b.html")).expect("the page");
    assert!(page.contains("<h1>b against a</h1>") && page.contains("<svg"));
    assert!(page.contains(">a, range</th>") && page.contains(">b, range</th>"));

    let other = scratch.text("other.html");
    let ended = timeloom(&[
        "compare",
        &a,
        &b,
        "--json",
        "--threshold",
        "0.1",
        "-o",
        &other,
    ]);
    let object = &ended.objects()[0];
    let signal = &object["signals"][0];
    assert_eq!(signal["signal"], "tank.level");
    let apart = signal["apart"]["max_abs"].as_f64().unwrap();
    assert!((apart - 0.3).abs() < 1e-9 && signal["apart"]["at_ns"] == 3_000_000_000_i64);
    assert_eq!(signal["first"]["max"], 3.0);
    assert_eq!(
        (&object["passed"], &object["past"][0]),
        (&false.into(), &"tank.level".into())
    );
    assert_eq!(object["difference"]["at_ns"], 1_000_000_000);
    assert!(scratch.path("other.html").exists());
}

#[test]
fn a_signal_that_only_one_run_has_is_shown_and_past_a_threshold() {
    let scratch = Scratch::new("compare-missing");
    make_run(&scratch.path("a"), 1.0, &["inflow"]);
    make_run(&scratch.path("b"), 1.0, &[]);
    let [a, b] = ["a", "b"].map(|name| scratch.text(name));
    let ended = timeloom(&["compare", &a, &b]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("not recorded"), "{}", ended.out);
    assert_eq!(
        timeloom(&["compare", &a, &b, "--threshold", "99%"]).code,
        Some(1)
    );
}

#[test]
fn mistakes_are_the_users() {
    let scratch = Scratch::new("compare-mistakes");
    let [a, b] = two(&scratch);
    let ended = timeloom(&["compare", &a, &b, "--threshold", "tank.lvel=1"]);
    assert_eq!(ended.code, Some(2));
    let said = "neither run has a signal `tank.lvel`; there are tank.level";
    assert!(ended.err.contains(said), "{}", ended.err);
    let ended = timeloom(&["compare", &a, &scratch.text("nowhere")]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("is not a run directory"),
        "{}",
        ended.err
    );
    assert_eq!(
        timeloom(&["compare", &a, &b, "--threshold", "-1"]).code,
        Some(2)
    );
}
