//! Measurements of reads in other programs, which print one line of numbers per round.

use std::path::PathBuf;
use std::process::Command;

use super::BENCH;
use super::page::Published;
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::stats::median;

/// Measures ClockBound's own clients. They are in the separate program `timeloom-bench-peers`, so
/// that the product does not link to their code.
pub(super) fn peers(
    options: &Options,
    published: &Published,
    core: usize,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let Some(program) = beside_us("timeloom-bench-peers") else {
        (options.remark)(
            "timeloom-bench-peers is not beside this program (`make build` makes it); interval_over_clockbound2 and 3 are left out",
        );
        return Ok(());
    };
    let Some(scale) = published.scale() else {
        (options.remark)(
            "the kernel does not trust the time-stamp counter, which ClockBound 3 reads; interval_over_clockbound2 and 3 are left out",
        );
        return Ok(());
    };
    published.publish();
    let [v2, v3] = published.clockbound(&scale)?;
    let mut command = Command::new(&program);
    command
        .arg(published.path())
        .args([v2, v3])
        .args([options.pick(101, 601), BATCH, core].map(|number| number.to_string()));
    // Columns in nanoseconds per read: the timeline's interval, ClockBound 2, ClockBound 3.
    let rounds = rounds::<3>(command)?;
    let column = |index: usize| rounds.iter().map(|row| row[index]).collect::<Vec<f64>>();
    let ours_ns = column(0);
    for (index, metric, bar, version) in [
        (1, "interval_over_clockbound2", 0.38, "2.0.3"),
        (2, "interval_over_clockbound3", 0.35, "3.0.0-rc.0"),
    ] {
        let theirs_ns = column(index);
        let ratios: Vec<f64> = ours_ns.iter().zip(&theirs_ns).map(|(a, b)| a / b).collect();
        figure(
            Figure::new(BENCH, metric, "ratio", &ratios)
                .bar(bar)
                .with("version", version)
                .with("read_ns", median(&ours_ns))
                .with("clockbound_ns", median(&theirs_ns))
                .with("reads_per_round", BATCH)
                .with("core", core),
        );
    }
    Ok(())
}

/// Measures `timeloom.timeline` of the Python package against `time.time_ns()`.
pub(super) fn python(
    options: &Options,
    published: &Published,
    core: usize,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let Some(python) = python_with_timeloom() else {
        (options.remark)(
            "no Python finds timeloom.timeline (`make build` prepares .venv; run this from the project's root, or say TIMELOOM_PYTHON); python_over_time_ns is left out",
        );
        return Ok(());
    };
    published.publish();
    let mut command = Command::new(python);
    command
        .args(["-m", "timeloom.read_cost"])
        .arg(published.path())
        .args([options.pick(101, 601), PYTHON_BATCH, core].map(|number| number.to_string()));
    let rounds = rounds::<3>(command)?;
    let ratios = |index: usize| {
        rounds
            .iter()
            .map(|row| row[index] / row[0])
            .collect::<Vec<f64>>()
    };
    let column = |index: usize| rounds.iter().map(|row| row[index]).collect::<Vec<f64>>();
    for (index, metric, bar) in [
        (1, "python_over_time_ns", Some(3.0)),
        (2, "python_estimate_over_time_ns", None),
    ] {
        let made = Figure::new(BENCH, metric, "ratio", &ratios(index))
            .with("read_ns", median(&column(index)))
            .with("time_ns_ns", median(&column(0)))
            .with("reads_per_round", PYTHON_BATCH);
        figure(match bar {
            Some(bar) => made.bar(bar),
            None => made,
        });
    }
    Ok(())
}

/// Runs a program that prints `N` numbers per line, and returns them.
fn rounds<const N: usize>(mut command: Command) -> Result<Vec<[f64; N]>, BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(BenchError::system(format!("starting {name}")))?;
    if !output.status.success() {
        return Err(BenchError::Worker(format!(
            "{name} ended with {}",
            output.status
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Option<Vec<[f64; N]>> = text
        .lines()
        .map(|line| {
            let numbers = line.split_whitespace().map(str::parse::<f64>);
            let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().ok()?;
            <[f64; N]>::try_from(numbers).ok()
        })
        .collect();
    rows.filter(|rows| !rows.is_empty())
        .ok_or_else(|| BenchError::Worker(format!("{name} answered: {text}")))
}

fn beside_us(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    // The executable of a test is in a directory one level deeper.
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

fn python_with_timeloom() -> Option<PathBuf> {
    let named = std::env::var_os("TIMELOOM_PYTHON").map(PathBuf::from);
    let candidates = [
        named,
        Some(".venv/bin/python".into()),
        Some("python3".into()),
    ];
    candidates.into_iter().flatten().find(|python| {
        Command::new(python)
            .args(["-c", "import timeloom.timeline"])
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

const BATCH: usize = 5_000;
const PYTHON_BATCH: usize = 2_000;
