//! Table 2 of the RVEC paper.

use serde_json::json;
use timeloom_clock::ntp_steps::{Discipline, PLATFORMS, Platform, Row, corrections};
use timeloom_results::report::{Chart, Curve, Part, Sheet};
use timeloom_time::Duration;

use crate::Experiment;

/// How large NTP's corrections are by how long it waits between questions, on
/// simulated oscillators in virtual time. `quick` takes a tenth of the paper's
/// 200 runs of 20 questions.
pub fn ntp_steps(seed: u64, quick: bool) -> Experiment {
    let size = (if quick { 20 } else { 200 }, 20);
    let (mut rows, mut table) = (Vec::new(), Vec::new());
    for platform in &PLATFORMS {
        for (interval, paper_mean, paper_deviation) in platform.paper {
            let run = |discipline| corrections(platform, interval, discipline, size, seed);
            let (phase, both) = (run(Discipline::Phase), run(Discipline::PhaseAndFrequency));
            for (discipline, row) in [("phase", phase), ("phase_and_frequency", both)] {
                rows.push(json!({
                    "experiment": "ntp-steps", "platform": platform.name,
                    "interval_ns": interval.as_ns(), "discipline": discipline,
                    "mean_ms": row.mean_ms, "deviation_ms": row.deviation_ms,
                    "greatest_ms": row.greatest_ms,
                    "paper_mean_ms": paper_mean, "paper_deviation_ms": paper_deviation,
                    "seed": seed, "clock": "simulated oscillator",
                }));
            }
            table.push(vec![
                platform.name.to_owned(),
                format!("{:.0}", interval.as_s_f64()),
                format!("{paper_mean:.3}"),
                format!("{paper_deviation:.3}"),
                format!("{:.3}", phase.mean_ms),
                format!("{:.3}", phase.deviation_ms),
                format!("{:.2}", phase.mean_ms / paper_mean),
                format!("{:.3}", both.mean_ms),
            ]);
        }
    }
    let columns = [
        "platform",
        "interval (s)",
        "paper μ (ms)",
        "paper σ (ms)",
        "model μ (ms)",
        "model σ (ms)",
        "model μ ÷ paper μ",
        "with frequency μ (ms)",
    ];
    let chart = |discipline, name: &str, title: &str| {
        let curves = PLATFORMS.iter().map(|platform| Curve {
            label: platform.name.to_owned(),
            points: curve(platform, discipline, size, seed),
        });
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            x_label: "interval between questions (s)".to_owned(),
            y_label: "mean correction (ms)".to_owned(),
            curves: curves.collect(),
        }
    };
    let sheet = Sheet {
        title: "What NTP does to a clock, by how often it asks".to_owned(),
        lead: format!(
            "Table 2 of the RVEC paper on simulated oscillators in virtual time: {} runs of {} \
             questions, seed {seed}. No NTP daemon runs here.",
            size.0, size.1
        ),
        parts: vec![
            Part::Table {
                heading: "Size of the corrections".to_owned(),
                columns: columns.map(str::to_owned).to_vec(),
                rows: table,
                note: "Queueing is fitted to the paper's rows of 0 s, drift to the wired rows of 600 s; the rest is \
                       predicted. The board on WiFi is the same board, so it gets the same drift, and its 29 ms at \
                       600 s are not reached. The deviations are not fitted: queueing is taken as exponential, \
                       with rare long delays on WiFi. The last column is a client that learns the frequency too."
                    .to_owned(),
            },
            Part::Figure {
                charts: vec![
                    chart(Discipline::Phase, "phase", "The time alone is corrected"),
                    chart(
                        Discipline::PhaseAndFrequency,
                        "phase-and-frequency",
                        "Time and frequency are corrected",
                    ),
                ],
                lead: "The clock steps by what it drifted.".to_owned(),
                caption: "A client that corrects the time alone steps by drift times interval; one that learns \
                          the frequency by the noise of its answers and the oscillator's wander. Neither is \
                          strictly increasing: a correction backwards is as likely as one forwards."
                    .to_owned(),
            },
        ],
    };
    Experiment { rows, sheet }
}

fn curve(
    platform: &Platform,
    discipline: Discipline,
    size: (u32, u32),
    seed: u64,
) -> Vec<(f64, f64)> {
    [0, 10, 30, 60, 120, 200, 300, 400, 500, 600]
        .into_iter()
        .map(|seconds| {
            let interval = Duration::from_s(seconds);
            let row: Row = corrections(platform, interval, discipline, (size.0 / 4, size.1), seed);
            (seconds as f64, row.mean_ms)
        })
        .collect()
}
