//! A run under `timeloom query`, `pause` and `resume`: its clock, the timestamps of its logs, and
//! its dilation.

use std::thread::sleep;
use std::time::Duration;

use crate::support::{Finished, Lab, Running, Scenario, log_lines, timeloom};

const TICKS: &[&str] = &["python3", "ticks.py", "0.02"];

fn number(run: &Running<'_>, request: &str, key: &str) -> i64 {
    let status = run.control(request).expect("it answers");
    status[key].as_i64().expect("a number")
}

/// The user is one more participant on the pause wire. Clock, programs and logs must stop, and must
/// resume where they stopped.
#[test]
fn a_run_that_is_paused_stands_and_goes_on() {
    let lab = Lab::new(
        // The run is so long that no request arrives after its end. At the end of the test it is
        // accelerated.
        &Scenario::lasting("30 s")
            .program('a', "ticks", TICKS, "")
            .program(
                'b',
                "client",
                &["python3", "poll.py", "10.0.0.10", "0.02"],
                "",
            )
            .plant("{}"),
    );
    let mut run = lab.start(&[]);
    run.wait_until(0.5);
    let before = number(&run, "query", "paused_total_ns");
    let frozen = number(&run, "pause", "virtual_ns");
    let wall = number(&run, "query", "wall_ns");
    sleep(Duration::from_millis(1200));
    let status = run.control("query").expect("it answers while it stands");
    assert_eq!(status["virtual_ns"].as_i64(), Some(frozen));
    assert_eq!(status["paused"], true);
    assert!(status["wall_ns"].as_i64().expect("a number") - wall >= 1_200_000_000);
    // A second pause must change nothing, because a user has a single hold.
    assert_eq!(number(&run, "pause", "virtual_ns"), frozen);
    let resumed = run.control("resume").expect("it goes on");
    assert!(resumed["paused_total_ns"].as_i64().expect("a number") - before >= 1_200_000_000);
    let refused = run.control("resume").expect_err("it is not paused");
    assert!(refused.contains("not paused"), "{refused}");
    run.control("dilate 0.2").expect("it goes on faster");
    let run = run.wait().succeeded();

    assert!(run.manifest().paused_total.as_ns() >= 1_200_000_000);
    let rows = run
        .directory()
        .clock()
        .expect("the clock's rows can be read");
    let by_hand: Vec<_> = rows
        .iter()
        .filter(|row| &*row.requester == "user")
        .collect();
    let held = by_hand
        .iter()
        .find(|row| row.action.as_str() == "resume")
        .expect("it let go");
    assert_eq!(held.t_virtual.as_ns(), frozen);
    assert!(held.duration.as_ns() >= 1_200_000_000);

    let log = log_lines(&lab.run_path(), "ticks");
    let ticks: Vec<(i64, i64)> = log
        .iter()
        .filter_map(|(stamp_us, line)| {
            let own_ns: i64 = line
                .strip_prefix("tick ")?
                .split_once(' ')?
                .1
                .parse()
                .ok()?;
            Some((*stamp_us, own_ns))
        })
        .collect();
    for (stamp_us, own_ns) in &ticks {
        // A timestamp is truncated to whole microseconds.
        assert!(*stamp_us >= own_ns / 1000, "stamped before it was printed");
        assert!(*stamp_us <= 30_000_000, "the pause is in the stamps");
        assert!(
            *own_ns <= 30_000_000_000,
            "the pause is in the program's time"
        );
    }
    let last_ns = ticks.last().expect("it ticked").1;
    assert!(last_ns > frozen, "its last tick was at {last_ns} ns");
}

#[test]
fn the_stamps_of_a_log_do_not_advance_while_a_plant_solves() {
    let lab = Lab::new(
        // The ticks begin at the same time as the pauses.
        &Scenario::lasting("600 s")
            .program('a', "ticks", TICKS, "after = [\"client\"]")
            .program(
                'b',
                "client",
                &["python3", "poll.py", "10.0.0.10", "0.02"],
                "ready = \"log:sample\"",
            )
            .plant("{ slow_ms = 100 }"),
    );
    let mut run = lab.start(&[]);
    run.wait_for("no pauses between ticks", |run| {
        let log = std::fs::read_to_string(lab.run_path().join("logs/ticks.log"));
        let ticks = log.unwrap_or_default().lines().count();
        let paused = run
            .control("query")
            .is_ok_and(|status| status["paused_total_ns"].as_i64() >= Some(1_200_000_000));
        ticks > 5 && paused
    });
    let run = run.stop();
    let end_us = run.manifest().virtual_duration.as_ns() / 1000;
    let log = log_lines(&lab.run_path(), "ticks");
    let (first_us, last_us) = (log.first().expect("it began").0, log.last().unwrap().0);
    let rows = run
        .directory()
        .clock()
        .expect("the clock's rows can be read");
    let paused_us: i64 = rows
        .iter()
        .filter(|row| (first_us..last_us).contains(&(row.t_virtual.as_ns() / 1000)))
        .map(|row| row.duration.as_ns() / 1000)
        .sum();
    assert!(paused_us > 0, "no pause from {first_us} to {last_us} us");
    // If the timestamps included the pauses, they would be behind the program's own time.
    for (stamp_us, line) in &log {
        assert!(*stamp_us <= end_us, "{stamp_us} us: {line}");
    }
}

/// Checks that the clock was never ahead of its rate between a start and a stop. Returns true if it
/// was ahead of wall time. Starts and stops are recorded afterwards, with a long delay on a busy
/// machine.
fn runs_at(dilation: f64, run: &Finished) -> bool {
    let rows = run
        .directory()
        .clock()
        .expect("the clock's rows can be read");
    let mut got_ahead = false;
    for row in rows.windows(3) {
        let actions = [0, 1, 2].map(|at| row[at].action.as_str());
        if actions == ["resume", "go", "stop"] {
            let virtual_ns = (row[2].t_virtual - row[0].t_virtual).as_ns() as f64;
            let wall_ns = (row[2].t_wall - row[0].t_wall).as_ns() as f64;
            assert!(
                dilation * virtual_ns <= wall_ns + 2.0,
                "{virtual_ns} ns at {dilation} took {wall_ns}"
            );
            got_ahead |= virtual_ns > wall_ns;
        }
    }
    assert!(!got_ahead || dilation < 1.0, "at {dilation}");
    let wall_s = run.manifest().wall_duration.as_s_f64();
    assert!(wall_s >= dilation, "{wall_s} s for 1 s at {dilation}");
    got_ahead
}

/// The wall time must be twice, and half, as long, with the same virtual results.
#[test]
fn dilation_stretches_wall_time_and_nothing_else() {
    let lab = |set: &[&str], dilation: f64| {
        let lab = Lab::new(
            &Scenario::lasting("1 s")
                .program('a', "ticks", &["python3", "ticks.py", "0.1"], "")
                .program(
                    'b',
                    "client",
                    &["python3", "poll.py", "10.0.0.10", "0.02"],
                    "ready = \"log:sample\"",
                )
                .plant("{}"),
        );
        let run = lab.run(set).succeeded();
        let got_ahead = runs_at(dilation, &run);
        let manifest = run.manifest();
        assert_eq!(manifest.virtual_duration.as_ns(), 1_000_000_000);
        let series = run
            .directory()
            .series(&["world.walk", "world.t_ns"])
            .expect("it can be read");
        let ticks = log_lines(&lab.run_path(), "ticks").len();
        let samples: Vec<_> = series.into_iter().map(|series| series.samples).collect();
        (samples, ticks, got_ahead)
    };
    let (normal, ..) = lab(&[], 1.0);
    let (slow, slow_ticks, _) = lab(&["time.dilation=2"], 2.0);
    // Each of its 21 stretches may have been recorded too late to show that the clock was fast.
    let mut runs = (0..20).map(|_| lab(&["time.dilation=0.5"], 0.5));
    let (fast, ..) = runs.find(|run| run.2).expect("faster than the wall's");
    assert_eq!(normal[0].len(), 21);
    assert_eq!(normal, slow);
    assert_eq!(normal, fast);
    // There may be fewer ticks, because Python takes time to start.
    assert!(slow_ticks <= 11, "{slow_ticks} ticks of 0.1 s in 1 s");
}

/// Each host must read its own uptime and boot time, and the machine's values only on request.
#[test]
fn hosts_read_the_uptime_of_their_clocks() {
    let said = |set: &[&str]| {
        let uptime = ["python3", "uptime.py"];
        let offset = "[system.hosts.b.clock]\noffset = \"-100 s\"\nfrequency = \"300 ppm\"\n";
        let lab = Lab::new(
            &Scenario::lasting("3 s")
                .program('a', "near", &uptime, "")
                .program('b', "far", &uptime, "")
                .and(offset),
        );
        let run = lab.run(set).succeeded();
        let degraded = run.manifest().degraded_modes;
        let lines = ["near", "far"].map(|name| {
            let log = log_lines(&lab.run_path(), name);
            log.first().map_or("", |(_, line)| line).to_owned()
        });
        let named = degraded.iter().any(|text| text.starts_with("/proc/uptime"));
        (lines, named)
    };
    let (lines, named) = said(&["time.dilation=2"]);
    assert!(
        !named,
        "this machine has no FUSE; `scripts/exclusions` excludes this test"
    );
    assert_eq!(lines, ["right", "right"]);
    let (lines, named) = said(&["time.dilation=2", "time.proc=\"machine\""]);
    assert!(
        lines.iter().all(|line| line.starts_with("wrong")),
        "{lines:?}"
    );
    assert!(!named, "as asked for");
}

/// A second run of the same name must be refused, and must not affect the first.
#[test]
fn a_name_that_is_taken_is_refused() {
    let lab = Lab::new(&Scenario::lasting("5 s").program('a', "ticks", TICKS, ""));
    let mut run = lab.start(&[]);
    run.wait_until(0.3);
    let (path, scenario) = (lab.path().join("second"), lab.path().join("scenario.toml"));
    let text = |path: &std::path::Path| path.display().to_string();
    let second = timeloom(&[
        "run",
        "--name",
        lab.name(),
        "-o",
        &text(&path),
        &text(&scenario),
    ]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(
        said.contains(lab.name()) && said.contains("already"),
        "{said}"
    );
    let exec = timeloom(&["exec", "--name", lab.name(), "true"]);
    assert_eq!(exec.status.code(), Some(2));
    assert!(run.control("query").is_ok(), "the first lost its socket");
    run.wait().succeeded();
}

/// `timeloom clean` may be called at any time, even while a run starts. A slow plant delays the
/// start of this run.
#[test]
fn clean_lets_a_run_alone_that_is_getting_ready() {
    let _turn = timeloom_test_support::orphans_turn();
    let lab = Lab::new(
        &Scenario::lasting("500 ms")
            .program('a', "ticks", TICKS, "")
            .plant("{ start_ms = 1000 }"),
    );
    let run = lab.start(&[]);
    let cleaned = crate::support::patiently(Duration::from_secs(120), || {
        lab.left().iter().any(|what| what.contains("plant.py"))
    });
    assert!(cleaned, "the plant does not come");
    let clean = timeloom(&["clean"]);
    assert!(clean.status.success());
    let run = run.wait().succeeded();
    let mut degraded = run.manifest().degraded_modes;
    degraded.retain(|text| !text.starts_with("/proc/uptime")); // a machine without FUSE
    assert_eq!(degraded, []);
}
