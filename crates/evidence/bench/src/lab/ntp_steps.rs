//! Table 2 of the RVEC paper on simulated oscillators.

use crate::Experiment;
use serde_json::json;
use timeloom_clock::ntp_steps::{NtpDiscipline, NtpStepRow, PLATFORMS, Platform, corrections};
use timeloom_results::report::{Chart, Curve, Sheet, SheetPart};
use timeloom_time::Duration;

use crate::lab::ntp_chronyd::{ChronydRow, Client};

/// Measures the size of NTP's corrections by the interval between requests, on simulated
/// oscillators in virtual time. With `quick`, it makes a tenth of the paper's 200 runs of 20
/// requests. `chronyd` has measurements of the real chronyd, which are shown next to the model's;
/// it may be empty.
pub fn ntp_steps(seed: u64, quick: bool, chronyd: &[ChronydRow]) -> Experiment {
    let size = (if quick { 20 } else { 200 }, 20);
    let (mut rows, mut table) = (Vec::new(), Vec::new());
    for platform in &PLATFORMS {
        for (interval, paper_mean, paper_deviation) in platform.paper {
            let run = |discipline| corrections(platform, interval, discipline, size, seed);
            let (phase, both) = (
                run(NtpDiscipline::Phase),
                run(NtpDiscipline::PhaseAndFrequency),
            );
            for (discipline, row) in [("phase", phase), ("phase_and_frequency", both)] {
                rows.push(json!({
                    "experiment": "ntp-steps", "platform": platform.name,
                    "interval_ns": interval.as_ns(), "discipline": discipline,
                    "mean_ms": row.mean_ms, "deviation_ms": row.deviation_ms,
                    "greatest_ms": row.greatest_ms,
                    "paper_mean_ms": paper_mean, "paper_deviation_ms": paper_deviation,
                    "seed": seed, "clock": "simulated oscillator", "client": "model",
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
            bands: Vec::new(),
            name: name.to_owned(),
            title: title.to_owned(),
            x_label: "interval between questions (s)".to_owned(),
            y_label: "mean correction (ms)".to_owned(),
            curves: curves.collect(),
        }
    };
    rows.extend(chronyd.iter().map(|row| row_of(row, seed)));
    let mut sheet = Sheet {
        title: "What NTP does to a clock, by how often it asks".to_owned(),
        lead: format!(
            "Table 2 of the RVEC paper on simulated oscillators in virtual time: {} runs of {} \
             questions, seed {seed}. {}",
            size.0,
            size.1,
            if chronyd.is_empty() {
                "No NTP daemon ran here."
            } else {
                "Below it the real chronyd on such oscillators."
            }
        ),
        parts: vec![
            SheetPart::Table {
                heading: "Size of the corrections".to_owned(),
                columns: columns.map(str::to_owned).to_vec(),
                rows: table,
                note: "Queueing is fitted to the paper's rows of 0 s, drift to the wired rows of 600 s; the rest is \
                       predicted. The board on WiFi is the same board, so it gets the same drift, and its 29 ms at \
                       600 s are not reached. The deviations are not fitted: queueing is taken as exponential, \
                       with rare long delays on WiFi. The last column is a client that learns the frequency too."
                    .to_owned(),
            },
            SheetPart::Figure {
                charts: vec![
                    chart(NtpDiscipline::Phase, "phase", "The time alone is corrected"),
                    chart(
                        NtpDiscipline::PhaseAndFrequency,
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
    if !chronyd.is_empty() {
        sheet.parts.insert(1, chronyd_table(chronyd));
    }
    Experiment { rows, sheet }
}

/// Returns the paper's mean and standard deviation for a row; `None` if the paper lacks the
/// interval.
fn paper_of(row: &ChronydRow) -> Option<(f64, f64)> {
    let mut rows = row.platform.paper.iter();
    rows.find(|(interval, ..)| row.client == Client::Once && *interval == row.interval)
        .map(|&(_, mean_ms, deviation_ms)| (mean_ms, deviation_ms))
}

fn row_of(row: &ChronydRow, seed: u64) -> serde_json::Value {
    let (client, discipline) = match row.client {
        Client::Once => ("chronyd -q", "phase"),
        Client::Daemon => ("chronyd", "phase_and_frequency"),
    };
    let paper = paper_of(row);
    json!({
        "experiment": "ntp-steps", "platform": row.platform.name,
        "interval_ns": row.interval.as_ns(), "discipline": discipline,
        "mean_ms": row.mean_ms, "deviation_ms": row.deviation_ms,
        "greatest_ms": row.greatest_ms,
        "corrections": row.corrections, "discarded": row.discarded, "failures": row.failures,
        "true_mean_ms": row.true_mean_ms,
        "paper_mean_ms": paper.map(|paper| paper.0), "paper_deviation_ms": paper.map(|paper| paper.1),
        "seed": seed, "clock": "simulated oscillator", "client": client,
    })
}

fn chronyd_table(rows: &[ChronydRow]) -> SheetPart {
    let columns = [
        "platform",
        "chronyd",
        "interval (s)",
        "paper μ (ms)",
        "chronyd μ (ms)",
        "chronyd σ (ms)",
        "μ ÷ paper μ",
        "corrections",
        "from true time (ms)",
    ];
    let cells = |row: &ChronydRow| {
        let paper_ms = paper_of(row).map(|paper| paper.0);
        vec![
            row.platform.name.to_owned(),
            match row.client {
                Client::Once => "asks once".to_owned(),
                Client::Daemon => "daemon".to_owned(),
            },
            format!("{:.0}", row.interval.as_s_f64()),
            paper_ms.map_or(String::new(), |ms| format!("{ms:.3}")),
            format!("{:.3}", row.mean_ms),
            format!("{:.3}", row.deviation_ms),
            paper_ms.map_or(String::new(), |ms| format!("{:.2}", row.mean_ms / ms)),
            row.corrections.to_string(),
            format!("{:.3}", row.true_mean_ms),
        ]
    };
    let (failures, discarded) = rows.iter().fold((0, 0), |(failures, discarded), row| {
        (failures + row.failures, discarded + row.discarded)
    });
    SheetPart::Table {
        heading: "The real chronyd".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(cells).collect(),
        note: format!(
            "Unmodified chronyd on hosts with these oscillators, over a simulated network, in virtual time. Asks \
             once: `chronyd -q` for each question, which corrects the time alone as the paper's client does. \
             Daemon: the time and the frequency, at intervals that are powers of two. The last column is the \
             clock's mean distance from true time, which chronyd cannot know. The delays are uniform with the \
             deviation of the model's queueing; nothing is fitted to these rows. {failures} `chronyd -q` ended \
             without a correction; {discarded} corrections after such a one are left out."
        ),
    }
}

fn curve(
    platform: &Platform,
    discipline: NtpDiscipline,
    size: (u32, u32),
    seed: u64,
) -> Vec<(f64, f64)> {
    [0, 10, 30, 60, 120, 200, 300, 400, 500, 600]
        .into_iter()
        .map(|seconds| {
            let interval = Duration::from_s(seconds);
            let row: NtpStepRow =
                corrections(platform, interval, discipline, (size.0 / 4, size.1), seed);
            (seconds as f64, row.mean_ms)
        })
        .collect()
}
