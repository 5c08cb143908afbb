//! `clock-read --quick` end to end. No timing is asserted: machines differ.
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
    ExitCode::SUCCESS
}

fn clock_read_gives_all_its_figures() {
    let own = std::env::current_exe().expect("a program knows its path");
    let options = Options {
        quick: true,
        worker: vec![own.into(), WORKER.into()],
        remark: |text| eprintln!("{text}"),
    };
    let mut lines = Vec::new();
    run(Name::ClockRead, &options, &mut |figure| {
        lines.push(figure.json());
    })
    .expect("a session can be made here");
    for metric in [
        "virtual_over_vdso",
        "virtual_ns",
        "virtual_realtime_over_vdso",
    ] {
        let start = format!(r#"{{"bench":"clock-read","metric":"{metric}","value":"#);
        let line = lines.iter().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no {metric} in {lines:#?}"));
        let figure: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let number = |key: &str| figure[key].as_f64().expect("a number");
        assert!(number("p5") <= number("value") && number("value") <= number("p95"));
        assert!(number("p5") > 0.0, "{line}");
        assert_eq!(figure["n"], 31);
        assert_eq!(figure["better"], "lower");
    }
}

const WORKER: &str = "--worker";
