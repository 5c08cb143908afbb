//! `clock-read --quick` and `timeline --quick` end to end. No timing is asserted: machines differ.
//!
//! The test program is its own worker, so it has a `main` instead of the usual
//! harness.

use std::process::ExitCode;

use timeloom_bench::{Name, Options, run, worker_main};

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

/// What needs other programs (ClockBound's clients, Python) is left out with a
/// remark where they are not, as here.
fn timeline_gives_all_its_figures() {
    let metrics = [
        "interval_over_vdso",
        "sip_thread_over_vdso",
        "sip_process_over_vdso",
    ];
    check(Name::Timeline, &metrics, 101);
}

fn check(name: Name, metrics: &[&str], rounds: u64) {
    let own = std::env::current_exe().expect("a program knows its path");
    let options = Options {
        quick: true,
        only: None,
        worker: vec![own.into(), WORKER.into()],
        remark: |text| eprintln!("{text}"),
    };
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

const WORKER: &str = "--worker";
