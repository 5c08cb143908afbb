//! Writes a report about runs that never happened, to look at its layout.
//!
//! `cargo run -p timeloom-results --example synthetic_report -- DIRECTORY`
//! The curves follow the shape of the paper's Figure 12 and prove nothing.

use std::path::{Path, PathBuf};

use timeloom_results::report::*;
use timeloom_results::*;
use timeloom_time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let root = PathBuf::from(
        std::env::args()
            .nth(1)
            .ok_or("usage: synthetic_report DIRECTORY")?,
    );
    let normal = run(&root, "no-attack", None, 0, true)?;
    let attack = run(&root, "dos", Some(22.5), 0, true)?;
    let group = |virtual_time: bool| -> Fallible<Vec<ProofRun>> {
        [0, 5, 50]
            .into_iter()
            .map(|ms| {
                let name = format!("solver{ms}-{}", if virtual_time { "on" } else { "off" });
                Ok(ProofRun {
                    directory: run(&root, &name, None, ms, virtual_time)?,
                    label: format!("solver +{ms} ms"),
                })
            })
            .collect()
    };
    let spec = ReportSpec {
        title: "Voltage stability under denial of service".into(),
        summary: "A sensor, a controller and a storage device keep the voltage of a 13-bus feeder while the wind varies. \
                  The second run is the same experiment with the storage's network link cut from 22.5 s on."
            .into(),
        runs: vec![
            ReportRun { directory: normal, label: "no attack".into(), kind: RunKind::Normal },
            ReportRun { directory: attack, label: "DoS at 22.5 s".into(), kind: RunKind::Attack },
        ],
        panels: vec![
            panel("Voltage at bus 680, phase A", "Voltage", &[("grid.v680", "")], vec![
                Reference::Line { value: 2400.0, label: "nominal 2400 V".into() },
            ]),
            panel("Wind generator, apparent power", "Apparent power", &[("wind", "")], vec![]),
            panel("Voltage at bus 646, phase B", "Voltage", &[("v646", "")], vec![
                Reference::Band { from: 2370.0, to: 2430.0, label: "±1.25 %".into() },
            ]),
            panel("Storage at bus 675", "Power", &[("storage", "supplied by storage"), ("load", "load")], vec![]),
        ],
        proof: Some(Proof {
            signal: "v680".into(),
            y_label: "Voltage at bus 680".into(),
            tolerance: 0.5,
            with_virtual_time: group(true)?,
            without_virtual_time: group(false)?,
            ..Proof::default()
        }),
        clock_run: 1,
        notes: vec!["These runs are synthetic; only the layout of this page is real.".into()],
    };
    let html = render(&spec);
    let path = root.join("report.html");
    std::fs::write(&path, &html)?;
    println!("{} ({} bytes)", path.display(), html.len());
    Ok(())
}

fn panel(
    title: &str,
    y_label: &str,
    signals: &[(&str, &str)],
    references: Vec<Reference>,
) -> Panel {
    Panel {
        title: title.into(),
        y_label: y_label.into(),
        unit: String::new(),
        signals: signals
            .iter()
            .map(|(n, l)| PanelSignal {
                name: (*n).into(),
                legend: (*l).into(),
            })
            .collect(),
        references,
    }
}

/// A 90 s experiment; without virtual time the solver's delay reaches the
/// controller and it acts late.
fn run(
    root: &Path,
    name: &str,
    attack_s: Option<f64>,
    solver_ms: i64,
    virtual_time: bool,
) -> Fallible<PathBuf> {
    let directory = RunDirectory::create(root.join(name))?;
    let started = parse_rfc3339("2026-06-03T08:14:05Z")?;
    let mut manifest = Manifest::begin("voltage-stability", 7, started, b"synthetic");
    manifest.add_program(Path::new("/bin/sh"));
    manifest.degraded_modes.push("The scheduler offers no real-time priority here, so wall-clock figures are those of a busy machine.".into());
    let recorder = directory.recorder()?;
    let delay_s = if virtual_time {
        0.0
    } else {
        solver_ms as f64 * 0.03
    };
    let (mut wall_ns, mut paused_ns, mut seq) = (0, 0, 0);
    for tick in 0..900i64 {
        let t = tick as f64 / 10.0;
        let virtual_ns = tick * 100_000_000;
        wall_ns += 100_000_000;
        for (requester, every, base_us) in [
            ("grid", 1, 3_000),
            ("storage-bus", 3, 450),
            ("breakpoint", 301, 2_500_000),
        ] {
            if tick % every != every - 1 || !virtual_time {
                continue;
            }
            let length = base_us * 1000
                + (noise(t * 7.0 + every as f64) * 900_000.0) as i64
                + solver_ms * 1_000_000;
            for (action, at, duration) in [
                (ClockAction::Pause, wall_ns, 0),
                (ClockAction::Resume, wall_ns + length, length),
            ] {
                seq += 1;
                recorder.clock(&ClockRow {
                    seq,
                    t_virtual: Instant::from_ns(virtual_ns),
                    t_wall: Instant::from_ns(at),
                    host: "a".into(),
                    action,
                    requester: requester.into(),
                    reason: "exchange".into(),
                    duration: Duration::from_ns(duration),
                })?;
            }
            wall_ns += length;
            paused_ns += length;
        }
        for (name, value, unit) in physics(t, attack_s, delay_s) {
            recorder.signal(&SignalRow {
                t_virtual: Instant::from_ns(virtual_ns),
                t_wall: Instant::from_ns(wall_ns),
                host: "a".into(),
                source: "grid".into(),
                name: name.into(),
                value,
                unit: unit.into(),
            })?;
        }
    }
    if let Some(at) = attack_s {
        recorder.label(&LabelRow {
            start: Instant::from_ns((at * 1e9) as i64),
            end: Instant::FAR_FUTURE,
            technique: "T0814".into(),
            target: "h1 h2".into(),
            attack: "DoS".into(),
        })?;
    }
    recorder.finish()?;
    manifest.ended = Some(started + Duration::from_ns(wall_ns));
    manifest.virtual_duration = Duration::from_s(90);
    manifest.wall_duration = Duration::from_ns(wall_ns);
    manifest.paused_total = Duration::from_ns(paused_ns);
    manifest.pauses = seq / 2;
    manifest.outcome = Outcome::Done;
    directory.write_manifest(&manifest)?;
    let check =
        |name: &str, passed, measured: &str, expression: &str, explanation: &str, applies| Check {
            name: name.into(),
            passed,
            measured: measured.into(),
            expression: expression.into(),
            explanation: explanation.into(),
            applies,
        };
    directory.write_checks(&[
        check(
            "sag",
            true,
            "2296 V at 43.1 s",
            "min(grid.v680) in 2280 V..2330 V after 25 s",
            "The attack leads to the sag that the paper shows.",
            attack_s.is_some(),
        ),
        check(
            "clock",
            true,
            "412 ns",
            "max_skew < 1 us",
            "All hosts showed the same virtual time.",
            true,
        ),
        check(
            "recovery",
            attack_s.is_none(),
            "never",
            "v680 > 2370 V within 10 s",
            "After the onset the voltage must come back.",
            true,
        ),
    ])?;
    Ok(directory.path().to_owned())
}

fn physics(t: f64, attack_s: Option<f64>, delay_s: f64) -> [(&'static str, f64, &'static str); 5] {
    let wind = |t: f64| {
        let gusts =
            900.0 * (t * 0.21).sin() + 420.0 * (t * 0.57 + 1.0).sin() + 160.0 * noise(t * 1.5);
        1e3 * (2000.0 + gusts + 1300.0 * (-((t - 18.7) / 3.0).powi(2)).exp()).clamp(900.0, 3800.0)
    };
    let load = 1e3 * (2862.0 + 110.0 * noise(t * 0.8));
    let seen = attack_s.map_or(t, |at| t.min(at)) - delay_s;
    let storage = (2862e3 - wind(seen)).clamp(-900e3, 2000e3) + 12e3 * noise(t * 4.0);
    let deficit = load - wind(t) - storage;
    [
        (
            "v680",
            2386.0 - deficit * 5.2e-5 + 2.0 * noise(t * 9.0),
            "V",
        ),
        (
            "v646",
            2392.0 - deficit * 1.7e-5 + 2.5 * noise(t * 8.0 + 3.0),
            "V",
        ),
        ("wind", wind(t), "VA"),
        ("storage", storage, "W"),
        ("load", load, "W"),
    ]
}

/// Smooth, in −1…1, always the same.
fn noise(t: f64) -> f64 {
    ((t * 1.7).sin() + (t * 2.9 + 1.3).sin() + (t * 5.3 + 0.7).sin()) / 3.0
}
