//! End-to-end tests of `clock-read --quick`, `timeline --quick` and `pause --hosts`. Times are not
//! checked, because machines differ.
//!
//! The test program is also the worker, so it has its own `main` instead of the usual harness.

use std::process::ExitCode;

use timeloom_bench::{Machines, Name, Options, pause_of_machines, run, worker_main};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, argument] = &arguments[..]
        && flag == WORKER
    {
        return worker_main(argument);
    }
    clock_read_gives_all_its_figures();
    println!("test clock_read_gives_all_its_figures ... ok");
    timeline_gives_all_its_figures();
    println!("test timeline_gives_all_its_figures ... ok");
    machines_agree_on_each_pause_and_have_a_table();
    println!("test machines_agree_on_each_pause_and_have_a_table ... ok");
    ExitCode::SUCCESS
}

fn clock_read_gives_all_its_figures() {
    let metrics = [
        "virtual_over_vdso",
        "virtual_ns",
        "virtual_realtime_over_vdso",
    ];
    check(Name::ClockRead, &metrics, 31);
}

/// Figures that need other programs (ClockBound's clients, Python) are skipped with a remark if
/// these are missing, as here.
fn timeline_gives_all_its_figures() {
    let metrics = [
        "interval_over_vdso",
        "sip_thread_over_vdso",
        "sip_process_over_vdso",
    ];
    check(Name::Timeline, &metrics, 101);
}

fn check(name: Name, metrics: &[&str], rounds: u64) {
    let options = options();
    let mut lines = Vec::new();
    run(name, &options, &mut |figure| lines.push(figure.json())).expect("this machine can do it");
    for metric in metrics {
        let start = format!(r#"{{"bench":"{name}","metric":"{metric}","value":"#);
        let line = lines.iter().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no {metric} in {lines:#?}"));
        let figure: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let number = |key: &str| figure[key].as_f64().expect("a number");
        assert!(number("p5") <= number("value") && number("value") <= number("p95"));
        assert!(number("p5") > 0.0, "{line}");
        assert_eq!(figure["n"], rounds);
        assert_eq!(figure["better"], "lower");
    }
}

/// The measurement also checks that each pause stopped all machines at one instant.
fn machines_agree_on_each_pause_and_have_a_table() {
    let machines = Machines {
        hosts: vec![1, 3],
        processes: vec![1, 4],
        pauses: 6,
    };
    let measured = pause_of_machines(&options(), &machines).expect("this machine can do it");
    let row = |metric: &str| {
        let row = measured.rows.iter().find(|row| row["metric"] == metric);
        row.unwrap_or_else(|| panic!("no {metric} in {:#?}", measured.rows))
    };
    for combination in ["1x1", "1x4", "3x1", "3x4"] {
        for key in ["own_stop", "stop", "own_resume", "resume", "running"] {
            let row = row(&format!("{key}_{combination}_ns"));
            let number = |key: &str| row[key].as_f64().expect("a number");
            assert!(0.0 < number("low") && number("low") <= number("value"));
            assert!(number("value") <= number("high"), "{row}");
        }
    }
    // Quantities per machine have a value for each machine and pause; others have one per pause.
    assert_eq!(row("own_stop_3x4_ns")["n"], 18);
    assert_eq!(row("stop_3x4_ns")["n"], 6);
    // The paper has values for four processes on one board, but none for three boards.
    assert_eq!(row("own_stop_1x4_ns")["paper_ns"], 97_800.0);
    assert!(row("own_stop_3x4_ns")["paper_ns"].is_null());
    let text = measured.text();
    for word in ["3 × 4", "97.8", "each process"] {
        assert!(text.contains(word), "{text}");
    }
}

fn options() -> Options {
    let own = std::env::current_exe().expect("a program knows its path");
    Options {
        quick: true,
        only: None,
        guests: Vec::new(),
        worker: vec![own.into(), WORKER.into()],
        remark: |text| eprintln!("{text}"),
    }
}

const WORKER: &str = "--worker";
