//! Figures 8–13 and Tables 3–5 of the RVEC paper.

use crate::{Experiment, Figure};
use serde_json::{Value, json};
use timeloom_clock::counter::dvfs::iterations::{self, IterationReading, Loop};
use timeloom_clock::counter::dvfs::{
    AT_400_MHZ, AT_800_MHZ, CostRow, change, costs, precision, wrap,
};
use timeloom_clock::counter::{Frequency, ReplaySample, Trace, replay};
use timeloom_results::report::{Chart, Curve, Sheet, SheetPart};
use timeloom_time::Duration;

/// Compares the raw counter with RVEC, in the paper's experiments or on a core that executes
/// `trace`. `machine` contains the figures that `timeloom bench timeline` has measured on this
/// machine; it may be empty.
pub fn dvfs(trace: Option<&Trace>, machine: &[Figure], seed: u64) -> Experiment {
    let mut experiment = match trace {
        Some(trace) => of_trace(trace),
        None => of_paper(seed),
    };
    let part = on_this_machine(machine, &mut experiment.rows);
    experiment.sheet.parts.push(part);
    experiment
}

fn of_trace(trace: &Trace) -> Experiment {
    let length: Duration = trace
        .stages
        .iter()
        .fold(Duration::ZERO, |sum, stage| sum + stage.length);
    // The interval is short enough for a chart, and well below half a wrap at any frequency.
    let every = Duration::from_ns((length.as_ns() / 1_000).clamp(1_000, 10_000_000));
    let samples = replay(trace, every);
    let (outcome, row) = outcome("trace", &samples);
    Experiment {
        rows: vec![row],
        sheet: Sheet {
            title: "RVEC over a trace".to_owned(),
            lead: "A simulated core with a counter of 32 bits goes through the given trace.".to_owned(),
            parts: vec![
                SheetPart::Figure {
                    charts: vec![
                        shown("trace", "What the clocks show", &samples),
                        missing("trace-error", &samples),
                    ],
                    lead: "The trace.".to_owned(),
                    caption: "The raw counter times the first period, and RVEC; then how far RVEC is behind \
                              true time with what it says it may have missed."
                        .to_owned(),
                },
                outcomes(vec![outcome]),
            ],
        },
    }
}

fn of_paper(seed: u64) -> Experiment {
    let (long, changed) = (wrap(), change());
    let loops = [
        (
            "fig8",
            "Figure 8: the counter over a short loop",
            iterations::SHORT,
            [true, false],
        ),
        (
            "fig9",
            "Figure 9: the counter overflows",
            iterations::OVERFLOW,
            [true, false],
        ),
        (
            "fig10",
            "Figure 10: RVEC over a short loop",
            iterations::SHORT,
            [false, true],
        ),
        (
            "fig12",
            "Figure 12: another task changes the frequency",
            iterations::CHANGED_BY_ANOTHER,
            [true, true],
        ),
        (
            "fig13",
            "Figure 13: the loop changes it itself",
            iterations::CHANGED_BY_ITSELF,
            [true, true],
        ),
    ];
    let mut rows = Vec::new();
    let mut charts: Vec<Chart> = loops
        .iter()
        .map(|(name, title, run, which)| {
            let turns = run.run(seed);
            rows.push(sip(name, run, &turns));
            looped(name, title, &turns, *which)
        })
        .collect();
    charts.insert(
        3,
        shown("fig11", "Figure 11: 100 stretches of 1.108 s", &long),
    );
    let (first, row) = outcome("wraps, 110.8 s at 800 MHz", &long);
    rows.push(row);
    let (second, row) = outcome("800 to 400 MHz", &changed);
    rows.push(row);
    let mut parts = vec![
        SheetPart::Figure {
            charts,
            lead: "What the clocks show.".to_owned(),
            caption: "A simulated core with a counter of 32 bits. The raw counter wraps every 5.4 s and goes on \
                      at the same pace per turn when a turn takes twice as long; RVEC does neither, and is the \
                      task's own: it stands while another task has the core."
                .to_owned(),
        },
        SheetPart::Figure {
            charts: vec![
                shown("change", "From 800 to 400 MHz in 50 µs", &changed),
                missing("change-error", &changed),
            ],
            lead: "A switch that takes time.".to_owned(),
            caption: "During the switch a cycle may last as long as either frequency says. RVEC counts with \
                      the shorter, so that it need not step back, and says how much may be missing."
                .to_owned(),
        },
        outcomes(vec![first, second]),
    ];
    for (table, work) in [(&PAPER_TABLE_3, AT_400_MHZ), (&PAPER_TABLE_4, AT_800_MHZ)] {
        let measured = costs(Frequency::from_mhz(table.mhz), &work, 100_000, seed);
        parts.push(cost_table(table, &measured, &mut rows));
    }
    parts.push(precision_table(seed, &mut rows));
    Experiment {
        rows,
        sheet: Sheet {
            title: "RVEC: a clock that counts cycles and follows their length".to_owned(),
            lead: format!(
                "Figures 8–13 and Tables 3–5 of the RVEC paper on a simulated core (seed {seed}), measured as there, \
                 with the paper's own figures beside; and what a read costs on this machine."
            ),
            parts,
        },
    }
}

/// Summarises a run of a loop, and reports if its clocks were strictly increasing.
fn sip(name: &str, run: &Loop, turns: &[IterationReading]) -> Value {
    let back = |value: fn(&IterationReading) -> Duration| {
        let pairs = turns.windows(2);
        pairs
            .filter(|pair| value(&pair[1]) <= value(&pair[0]))
            .count()
    };
    json!({
        "experiment": "dvfs", "figure": name, "turns": run.turns,
        "raw_not_increasing": back(|turn| turn.raw),
        "rvec_not_increasing": back(|turn| turn.rvec.as_duration()),
    })
}

fn looped(name: &str, title: &str, turns: &[IterationReading], [raw, rvec]: [bool; 2]) -> Chart {
    let points = |value: fn(&IterationReading) -> Duration| {
        let shown = |turn: &IterationReading| (f64::from(turn.turn), value(turn).as_s_f64() * 1e3);
        turns.iter().map(shown).collect::<Vec<_>>()
    };
    let mut curves = Vec::new();
    if raw {
        curves.push(Curve {
            label: "raw counter (CCNT)".to_owned(),
            points: points(|turn| turn.raw),
        });
    }
    if rvec {
        curves.push(Curve {
            label: "RVEC".to_owned(),
            points: points(|turn| turn.rvec.as_duration()),
        });
    }
    Chart {
        bands: Vec::new(),
        name: name.to_owned(),
        title: title.to_owned(),
        x_label: "turn of the loop".to_owned(),
        y_label: "time shown (ms)".to_owned(),
        curves,
    }
}

fn shown(name: &str, title: &str, samples: &[ReplaySample]) -> Chart {
    let points = |value: fn(&ReplaySample) -> Duration| {
        let shown = |sample: &ReplaySample| {
            (
                sample.truth.as_s_f64() * 1e3,
                value(sample).as_s_f64() * 1e3,
            )
        };
        samples.iter().map(shown).collect::<Vec<_>>()
    };
    Chart {
        bands: Vec::new(),
        name: name.to_owned(),
        title: title.to_owned(),
        x_label: "true time (ms)".to_owned(),
        y_label: "time shown (ms)".to_owned(),
        curves: vec![
            Curve {
                label: "raw counter (CCNT)".to_owned(),
                points: points(|sample| sample.raw),
            },
            Curve {
                label: "RVEC".to_owned(),
                points: points(|sample| sample.rvec.age.as_duration()),
            },
        ],
    }
}

fn missing(name: &str, samples: &[ReplaySample]) -> Chart {
    let points = |value: fn(&ReplaySample) -> Duration| {
        let shown = |sample: &ReplaySample| {
            (
                sample.truth.as_s_f64() * 1e3,
                value(sample).as_ns() as f64 / 1e3,
            )
        };
        samples.iter().map(shown).collect::<Vec<_>>()
    };
    Chart {
        bands: Vec::new(),
        name: name.to_owned(),
        title: "How far RVEC is behind".to_owned(),
        x_label: "true time (ms)".to_owned(),
        y_label: "behind (µs)".to_owned(),
        curves: vec![
            Curve {
                label: "true time less RVEC".to_owned(),
                points: points(|sample| sample.truth - sample.rvec.age.as_duration()),
            },
            Curve {
                label: "what RVEC says may be missing".to_owned(),
                points: points(|sample| sample.rvec.missing),
            },
        ],
    }
}

/// Returns the final readings of the clocks, and the results of checks on them.
fn outcome(name: &str, samples: &[ReplaySample]) -> (Vec<String>, Value) {
    let pairs = || {
        samples
            .windows(2)
            .filter(|pair| pair[1].truth > pair[0].truth)
    };
    let raw_back = pairs().filter(|pair| pair[1].raw <= pair[0].raw).count();
    let rvec_back = pairs()
        .filter(|pair| pair[1].rvec.age <= pair[0].rvec.age)
        .count();
    let last = samples.last().expect("a replay has a first sample");
    let (truth, age) = (last.truth, last.rvec.age.as_duration());
    let contained = samples.iter().all(|sample| {
        let age = sample.rvec.age;
        age.as_duration() <= sample.truth
            && sample.truth <= age.as_duration_up() + sample.rvec.missing
    });
    let cells = vec![
        name.to_owned(),
        truth.to_string(),
        last.raw.to_string(),
        raw_back.to_string(),
        age.to_string(),
        rvec_back.to_string(),
        last.rvec.missing.to_string(),
        if contained { "yes" } else { "no" }.to_owned(),
    ];
    let row = json!({
        "experiment": "dvfs", "run": name, "samples": samples.len(),
        "true_ns": truth.as_ns(), "raw_ns": last.raw.as_ns(), "rvec_ns": age.as_ns(),
        "rvec_missing_ns": last.rvec.missing.as_ns(),
        "raw_not_increasing": raw_back, "rvec_not_increasing": rvec_back,
        "true_time_within_rvec": contained,
    });
    (cells, row)
}

fn outcomes(rows: Vec<Vec<String>>) -> SheetPart {
    let columns = [
        "run",
        "true time",
        "raw counter shows",
        "not increasing",
        "RVEC shows",
        "not increasing",
        "may be missing",
        "true time within",
    ];
    SheetPart::Table {
        heading: "Raw counter against RVEC".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        note: "`Not increasing` counts pairs of neighbouring samples of which the later is not greater.".to_owned(),
    }
}

fn cost_table(paper: &PaperCosts, measured: &[CostRow], rows: &mut Vec<Value>) -> SheetPart {
    let PaperCosts { number, mhz, .. } = paper;
    let monotonic_us = measured[2].overhead_us;
    let mut cells = Vec::new();
    for (index, row) in measured.iter().enumerate() {
        let (paper_us, paper_deviation_us) = (paper.overhead_us[index], paper.deviation_us[index]);
        let over_monotonic = row.overhead_us / monotonic_us;
        let paper_over_monotonic = paper_us / paper.overhead_us[2];
        rows.push(json!({
            "experiment": "dvfs", "table": number, "clock": row.clock, "mhz": mhz,
            "mean_us": row.mean_us, "deviation_us": row.deviation_us,
            "paper_deviation_us": paper_deviation_us,
            "overhead_us": row.overhead_us, "paper_overhead_us": paper_us,
            "overhead_over_monotonic": over_monotonic,
            "paper_overhead_over_monotonic": paper_over_monotonic,
        }));
        cells.push(vec![
            row.clock.to_owned(),
            format!("{:.3}", row.mean_us),
            format!("{:.3}", row.deviation_us),
            format!("{paper_deviation_us:.3}"),
            format!("{:.3}", row.overhead_us),
            format!("{paper_us:.3}"),
            format!("{:.2}", row.overhead_percent),
            format!("{over_monotonic:.2}"),
            format!("{paper_over_monotonic:.2}"),
        ]);
    }
    let columns = [
        "clock",
        "mean (µs)",
        "σ (µs)",
        "paper's σ (µs)",
        "overhead (µs)",
        "paper (µs)",
        "overhead (%)",
        "÷ MONOTONIC",
        "paper ÷ MONOTONIC",
    ];
    let other = if *mhz == 800 {
        "Table 4 (400 MHz)"
    } else {
        "Table 3 (800 MHz)"
    };
    SheetPart::Table {
        heading: format!("Table {number}: a block with one read in it, at {mhz} MHz"),
        columns: columns.map(str::to_owned).to_vec(),
        rows: cells,
        note: format!(
            "Measured by the simulated counter, the block alone and with each read in it. The cycles of block and \
             reads are those of {other}; how much the block varies is from the paper's section 4.2.1."
        ),
    }
}

fn precision_table(seed: u64, rows: &mut Vec<Value>) -> SheetPart {
    let measured = precision(Frequency::from_mhz(800), &AT_400_MHZ, 1_000, seed);
    let cells = measured
        .iter()
        .zip(PAPER_TABLE_5)
        .map(|(row, (paper_us, paper_deviation_us))| {
            let variation = row.deviation_us / row.mean_us;
            rows.push(json!({
                "experiment": "dvfs", "table": 5, "clock": row.clock, "mean_us": row.mean_us,
                "deviation_us": row.deviation_us, "variation": variation,
                "paper_mean_us": paper_us, "paper_deviation_us": paper_deviation_us,
                "error_ns": row.error_ns,
            }));
            vec![
                row.clock.to_owned(),
                format!("{:.3}", row.mean_us),
                format!("{paper_us:.3}"),
                format!("{:.3}", row.deviation_us),
                format!("{paper_deviation_us:.3}"),
                format!("{variation:.3}"),
                format!("{:.3}", paper_deviation_us / paper_us),
                format!("{:.1}", row.error_ns),
            ]
        });
    let columns = [
        "clock",
        "mean (µs)",
        "paper (µs)",
        "σ (µs)",
        "paper (µs)",
        "σ ÷ mean",
        "paper",
        "mean error (ns)",
    ];
    SheetPart::Table {
        heading: "Table 5: the block as the clocks measure it, at 800 MHz".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: cells.collect(),
        note: "The block between two reads of the clock, and what these showed. The cycles are those of Table 4. \
               The error against true time between the reads the paper could not know."
            .to_owned(),
    }
}

fn on_this_machine(machine: &[Figure], rows: &mut Vec<Value>) -> SheetPart {
    let known = [
        ("counter_over_monotonic", "the counter alone", "0.48"),
        ("rvec_over_monotonic", "RVEC", "1.51"),
        ("realtime_over_monotonic", "REALTIME", "0.97"),
        (
            "interval_over_vdso",
            "a timeline with its interval ÷ REALTIME",
            "",
        ),
        (
            "sip_thread_over_vdso",
            "the same, strictly increasing in a thread",
            "",
        ),
        (
            "sip_process_over_vdso",
            "the same, strictly increasing in the process",
            "",
        ),
    ];
    let mut cells = Vec::new();
    for (metric, name, paper) in known {
        let Some(figure) = machine.iter().find(|figure| figure.metric == metric) else {
            continue;
        };
        rows.push(json!({
            "experiment": "dvfs", "this_machine": metric, "value": figure.value,
            "p5": figure.p5, "p95": figure.p95, "n": figure.n,
        }));
        cells.push(vec![
            name.to_owned(),
            format!("{:.2}", figure.value),
            format!("{:.2} … {:.2}", figure.p5, figure.p95),
            paper.to_owned(),
        ]);
    }
    if cells.is_empty() {
        return SheetPart::Text {
            heading: "On this machine".to_owned(),
            paragraphs: vec!["What a read costs here was not measured.".to_owned()],
        };
    }
    let columns = ["read", "÷ MONOTONIC", "5 … 95 %", "the paper's board"];
    SheetPart::Table {
        heading: "What a read costs on this machine, as ratios".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: cells,
        note: "Medians of interleaved rounds, as `timeloom bench timeline` gives them. The paper's ratios are \
               overheads of system calls on its board."
            .to_owned(),
    }
}

/// The paper's values for CCNT, RVEC, MONOTONIC and REALTIME, in this order.
struct PaperCosts {
    number: u32,
    mhz: u64,
    deviation_us: [f64; 4],
    overhead_us: [f64; 4],
}

const PAPER_TABLE_3: PaperCosts = PaperCosts {
    number: 3,
    mhz: 800,
    deviation_us: [6.729, 7.419, 6.918, 6.891],
    overhead_us: [1.333, 4.148, 2.753, 2.659],
};
const PAPER_TABLE_4: PaperCosts = PaperCosts {
    number: 4,
    mhz: 400,
    deviation_us: [19.831, 20.448, 19.187, 19.720],
    overhead_us: [2.702, 8.002, 5.188, 5.125],
};

/// The paper's mean and standard deviation for each clock, in µs.
const PAPER_TABLE_5: [(f64, f64); 4] = [
    (170.439, 6.554),
    (172.820, 7.248),
    (172.047, 7.086),
    (171.459, 7.140),
];
