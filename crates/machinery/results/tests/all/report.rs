//! Structure of the report: it must be well-formed whatever the runs contain, must escape untrusted
//! text, and must have a limited size.

use std::path::{Path, PathBuf};

use timeloom_results::report::*;
use timeloom_results::*;
use timeloom_time::{Duration, Instant, Utc};

const HOSTILE: &str = "</td><script>alert(\"1\")</script><!-- & ' \u{1b}[2J \u{202e} ]]>";

fn signal(ns: i64, name: &str, value: f64) -> SignalRow {
    SignalRow {
        t_virtual: Instant::from_ns(ns),
        t_wall: Instant::from_ns(ns),
        host: "a".into(),
        source: "grid".into(),
        name: name.into(),
        value,
        unit: "V".into(),
    }
}

fn report_run(directory: PathBuf, label: &str, kind: RunKind) -> ReportRun {
    ReportRun {
        directory,
        label: label.into(),
        kind,
    }
}

fn panel(name: &str) -> Panel {
    Panel {
        title: name.into(),
        signals: vec![PanelSignal {
            name: name.into(),
            legend: name.into(),
        }],
        ..Panel::default()
    }
}

/// Checks with a parser that the page is well-formed XML, and returns all of its text.
fn well_formed(html: &str) -> String {
    let xml = html
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("it says what it is");
    let document = roxmltree::Document::parse(xml).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    for node in document.descendants() {
        assert_ne!(node.tag_name().name(), "script");
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            // A link must lead to a section of the page.
            if name == "href" && value.starts_with('#') {
                continue;
            }
            assert!(
                !["src", "href", "onload", "onclick"].contains(&name),
                "{name} loads or runs something"
            );
            assert!(
                !value.contains("NaN") && !value.contains("inf"),
                "{name}=\"{value}\""
            );
        }
    }
    assert!(!html.contains("url(") && !html.contains("@import"));
    document
        .descendants()
        .filter_map(|node| node.text())
        .collect()
}

fn empty_run(path: &Path) -> RunDirectory {
    let run = RunDirectory::create(path).unwrap();
    run.recorder().unwrap().finish().unwrap();
    run
}

#[test]
fn nothing_at_all_is_still_a_page() {
    let text = well_formed(&render(&ReportSpec::default()));
    assert!(text.contains("no run was given"), "{text}");
}

#[test]
fn missing_data_are_reported_and_nothing_panics() {
    let temporary = tempfile::tempdir().unwrap();
    let empty = empty_run(&temporary.path().join("empty"));
    let proof = |name: &str| ProofRun {
        directory: temporary.path().join(name),
        label: name.into(),
    };
    let spec = ReportSpec {
        title: "Missing".into(),
        runs: vec![
            report_run(crate::place(&empty), "empty", RunKind::Normal),
            report_run(temporary.path().join("nowhere"), "nowhere", RunKind::Attack),
        ],
        panels: vec![panel("v680"), Panel::default()],
        proof: Some(Proof {
            signal: "v680".into(),
            with_virtual_time: vec![proof("empty"), proof("nowhere")],
            ..Proof::default()
        }),
        clock_run: 99,
        ..ReportSpec::default()
    };
    let text = well_formed(&render(&spec));
    for said in [
        "signal v680 in run “empty”",
        "“nowhere” could not be opened",
        "manifest.json could not be read",
        "no record of its clock",
        "no run has a manifest",
        "defines no checks",
    ] {
        assert!(text.contains(said), "`{said}` is not said in:\n{text}");
    }
}

/// Creates a finished run with this manifest, whose two checks hold.
fn checked_run(path: &Path, manifest: &Manifest) -> RunDirectory {
    let run = empty_run(path);
    run.write_manifest(manifest).unwrap();
    let check = |name: &str| CheckResult {
        name: name.into(),
        passed: true,
        measured: 1.0.into(),
        expression: "max(grid.v680) < 2".into(),
        explanation: "it is 1".into(),
        applies: true,
    };
    run.write_checks(&[check("one"), check("two")]).unwrap();
    run
}

fn report_of(run: &RunDirectory) -> String {
    let spec = ReportSpec {
        title: "T".into(),
        runs: vec![report_run(crate::place(run), "it", RunKind::Normal)],
        ..ReportSpec::default()
    };
    render(&spec)
}

#[test]
fn failures_stand_on_top_and_no_check_passes_in_green() {
    let temporary = tempfile::tempdir().unwrap();
    let mut manifest = Manifest::begin("m", 1, Instant::<Utc>::ZERO, b"");
    manifest.outcome = Outcome::Done;
    let well = checked_run(&temporary.path().join("well"), &manifest);
    let html = report_of(&well);
    assert!(!html.contains("class=\"banner"), "{html}");
    assert!(html.contains("<span class=\"verdict-sentence pass\">2 of 2 passed</span>"));

    manifest.outcome = Outcome::Failed;
    manifest.failure = Some(RunFailure {
        culprit: "victim".into(),
        what: "ended with status 3".into(),
        at: Instant::from_ns(1_500_000_000),
        log: vec!["[ 1.4] first <b>".into(), "[ 1.5] second".into()],
    });
    let failed = checked_run(&temporary.path().join("failed"), &manifest);
    let html = report_of(&failed);
    let text = well_formed(&html);
    assert!(
        text.contains("Failed at 1.500 s of virtual time."),
        "{text}"
    );
    assert!(text.contains("[ 1.4] first <b>\n[ 1.5] second"), "as lines");
    assert!(html.find("class=\"banner failed\"") < html.find("<table"));
    assert!(
        text.contains("2 of 2 passed until the run ended early"),
        "{text}"
    );
    assert!(!html.contains("verdict-sentence pass"), "not in green");

    manifest.outcome = Outcome::Done;
    manifest.failure = None;
    manifest.untrusted = vec![Caveat::new("The machine was too slow.", Remedy::SLOWER)];
    let untrusted = checked_run(&temporary.path().join("untrusted"), &manifest);
    let html = report_of(&untrusted);
    let text = well_formed(&html);
    assert!(html.find("class=\"banner untrusted\"") < html.find("<table"));
    assert!(text.contains("The machine was too slow."), "{text}");
    assert!(!text.contains("✓ done") && !html.contains("verdict-sentence pass"));
}

#[test]
fn hostile_names_stay_text() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path().join("run")).unwrap();
    let recorder = run.recorder().unwrap();
    for t in 0..3 {
        recorder
            .signal(&SignalRow {
                unit: HOSTILE.into(),
                ..signal(t * 1_000_000_000, HOSTILE, t as f64)
            })
            .unwrap();
    }
    for (seq, action) in [(1, ClockAction::Pause), (2, ClockAction::Resume)] {
        recorder
            .clock(&ClockRow {
                seq,
                t_virtual: Instant::from_ns(1),
                t_wall: Instant::from_ns(seq as i64 * 1_000_000),
                host: HOSTILE.into(),
                action,
                requester: HOSTILE.into(),
                reason: HOSTILE.into(),
                duration: Duration::ZERO,
            })
            .unwrap();
    }
    recorder
        .label(&LabelRow {
            start: Instant::from_ns(5),
            end: Instant::FAR_FUTURE,
            technique: HOSTILE.into(),
            target: HOSTILE.into(),
            attack: HOSTILE.into(),
        })
        .unwrap();
    recorder.finish().unwrap();
    let mut manifest = Manifest::begin(HOSTILE, 1, Instant::<Utc>::ZERO, b"");
    manifest.culprit = Some(HOSTILE.into());
    let hostile = Caveat::new(HOSTILE, Remedy::SLOWER);
    manifest.degraded_modes.push(hostile.clone());
    manifest.untrusted.push(hostile);
    manifest.outcome = Outcome::Failed;
    manifest.failure = Some(RunFailure {
        culprit: HOSTILE.into(),
        what: HOSTILE.into(),
        at: Instant::ZERO,
        log: vec![HOSTILE.into()],
    });
    manifest.programs.push(ProgramHash {
        path: HOSTILE.into(),
        sha256: HOSTILE.into(),
    });
    run.write_manifest(&manifest).unwrap();
    run.write_checks(&[CheckResult {
        name: HOSTILE.into(),
        passed: false,
        measured: HOSTILE.into(),
        expression: HOSTILE.into(),
        explanation: HOSTILE.into(),
        applies: true,
    }])
    .unwrap();
    let directory = crate::place(&run);
    let spec = ReportSpec {
        title: HOSTILE.into(),
        summary: HOSTILE.into(),
        runs: vec![report_run(directory.clone(), HOSTILE, RunKind::Attack)],
        panels: vec![Panel {
            y_label: HOSTILE.into(),
            unit: HOSTILE.into(),
            references: vec![
                Reference::Line {
                    value: 1.0,
                    label: HOSTILE.into(),
                },
                Reference::Band {
                    from: f64::NAN,
                    to: 1.0,
                    label: HOSTILE.into(),
                },
                Reference::Band {
                    from: 2.0,
                    to: 1.0,
                    label: HOSTILE.into(),
                },
            ],
            ..panel(HOSTILE)
        }],
        proof: Some(Proof {
            signal: HOSTILE.into(),
            unit: HOSTILE.into(),
            tolerance: f64::NAN,
            with_virtual_time: vec![
                ProofRun {
                    directory: directory.clone(),
                    label: HOSTILE.into()
                };
                4
            ],
            without_virtual_time: vec![
                ProofRun {
                    directory,
                    label: HOSTILE.into()
                };
                2
            ],
            ..Proof::default()
        }),
        notes: vec![HOSTILE.into()],
        ..ReportSpec::default()
    };
    let html = render(&spec);
    let text = well_formed(&html);
    assert!(
        text.contains("<script>alert(\"1\")</script>"),
        "shown as text"
    );
    assert!(!html.contains("<script") && !html.contains('\u{1b}') && !html.contains('\u{202e}'));
    assert_eq!(html, render(&spec), "the same runs give the same bytes");
}

#[test]
fn one_sample_is_a_point_and_a_constant_a_line() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path()).unwrap();
    let recorder = run.recorder().unwrap();
    recorder.signal(&signal(0, "one", 2400.0)).unwrap();
    recorder.signal(&signal(0, "constant", 0.0)).unwrap();
    recorder.signal(&signal(1, "constant", 0.0)).unwrap();
    recorder.signal(&signal(0, "wild", f64::MIN)).unwrap();
    recorder.signal(&signal(1, "wild", f64::MAX)).unwrap();
    recorder.flush().unwrap();
    let spec = ReportSpec {
        runs: vec![report_run(
            temporary.path().into(),
            "still running",
            RunKind::Normal,
        )],
        panels: vec![panel("one"), panel("constant"), panel("wild")],
        ..ReportSpec::default()
    };
    let html = render(&spec);
    let text = well_formed(&html);
    assert_eq!(html.matches("<circle").count(), 1);
    assert!(text.contains("has not finished"), "{text}");
}

#[test]
fn a_million_rows_make_a_small_page() {
    let temporary = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(temporary.path()).unwrap();
    let recorder = run.recorder().unwrap();
    let names: Vec<String> = (0..4).map(|i| format!("v{i}")).collect();
    for i in 0..250_000i64 {
        for name in &names {
            // Noise is the worst case for the size of a path.
            let noise = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 40) as f64;
            recorder.signal(&signal(i * 360_000, name, noise)).unwrap();
        }
    }
    recorder.finish().unwrap();
    let spec = ReportSpec {
        runs: vec![
            report_run(temporary.path().into(), "a", RunKind::Normal),
            report_run(temporary.path().into(), "b", RunKind::Attack),
        ],
        panels: names.iter().map(|name| panel(name)).collect(),
        ..ReportSpec::default()
    };
    let html = render(&spec);
    well_formed(&html);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("class=\"trace\"").count(), 8);
}
