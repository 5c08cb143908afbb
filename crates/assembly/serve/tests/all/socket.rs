//! The state of a run by the socket of a page: of a run that has ended, of one that grows, and for
//! a page that does not read.

use std::io::Write as _;

use timeloom_results::{LabelRow, Outcome};
use timeloom_time::Instant;

use crate::support::{Lab, event, manifest, sample};

#[test]
fn a_run_that_has_ended_is_shown_whole() {
    let lab = Lab::new();
    lab.finished("demo/calm");
    let mut page = lab.page("demo/calm");
    let (mut run, mut clock, mut signal, mut program) = (None, None, None, None);
    while run.is_none() || clock.is_none() || signal.is_none() || program.is_none() {
        let (message, _) = page.next();
        let take = |name: &str| message.get(name).cloned();
        let (new_run, new_clock) = (take("run"), take("clock"));
        run = new_run.or(run);
        clock = new_clock.or(clock);
        signal = take("signals").map(|all| all[0].clone()).or(signal);
        program = take("programs")
            .map(|all| all[0].clone())
            .filter(|one| !one.is_null())
            .or(program);
    }
    let (run, clock) = (run.expect("told"), clock.expect("told"));
    assert_eq!((&run["state"], &run["seed"]), (&"done".into(), &7.into()));
    assert_eq!(run["untrusted"], serde_json::json!([]));
    assert_eq!(clock["virtual_s"], 2.0);
    let signal = signal.expect("told");
    assert_eq!(signal["name"], serde_json::json!(["tank.level", "m"]));
    assert_eq!(
        (&signal["t"], &signal["low"]),
        (&serde_json::json!([1.0]), &serde_json::json!([2.5]))
    );
    assert_eq!(program.expect("told")["state"], "running");
}

#[test]
fn a_page_follows_a_run_to_its_end() {
    let lab = Lab::new();
    let (run, recorder) = lab.run("tank");
    let mut page = lab.page("tank");
    let state = page.find(|message| message["run"]["state"].as_str().map(str::to_owned));
    assert_eq!(state, "unfinished", "no session writes it");
    // Rows that are in their files are shown.
    recorder
        .event(&event(5, "control", "by the live view: paused"))
        .expect("room");
    let text = page.find(|message| {
        message["events"]["added"][0]["text"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(text, "by the live view: paused");
    recorder
        .label(&LabelRow {
            start: Instant::from_ns(1_000_000_000),
            end: Instant::FAR_FUTURE,
            technique: "T0830".into(),
            target: "plc".into(),
            attack: "mitm".into(),
        })
        .expect("room");
    let attack = page.find(|message| message["attacks"].get(0).cloned());
    assert_eq!(
        (&attack["name"], &attack["end_s"]),
        (&"mitm".into(), &serde_json::Value::Null)
    );
    let (mut log, _) = run.log("plc").expect("it can be made");
    writeln!(log, "[    0.000005] hello").expect("room");
    page.find(|message| {
        message["logs"]
            .as_array()
            .filter(|all| !all.is_empty())
            .cloned()
    });
    page.say(r#"{"logs":["plc"]}"#);
    let tail = page.find(|message| message["tails"]["plc"][0].as_str().map(str::to_owned));
    assert_eq!(tail, "[    0.000005] hello");
    recorder
        .signal(&sample("level", 7_000_000_000, 3.5))
        .expect("room");
    recorder.finish().expect("room");
    let mut manifest = manifest("tank");
    manifest.outcome = Outcome::Done;
    run.write_manifest(&manifest).expect("room");
    let last = page.find(|message| message["signals"][0]["summary"]["last"].as_f64());
    assert_eq!(
        last, 3.5,
        "the last row is read although its journal is gone"
    );
    // The report is written after the end: the page that is open gets its link.
    page.find(|message| (message["run"]["state"] == "done").then_some(()));
    run.write_report("<p>").expect("room");
    page.find(|message| (message["run"]["has_report"] == true).then_some(()));
    // Another run in this directory is not mixed with the one that is shown.
    let mut other = manifest;
    other.started = Instant::from_ns(1_000_000_000);
    run.write_manifest(&other).expect("room");
    let replaced = |message: &serde_json::Value| {
        let remarks = message["run"]["remarks"].to_string();
        remarks.contains("has replaced this one").then_some(())
    };
    page.find(replaced);
    let mut new = lab.page("tank");
    let started = new.find(|message| message["run"]["started"].as_str().map(str::to_owned));
    assert_eq!(started, "1970-01-01T00:00:01.000000000Z");
}

/// A table that is damaged, or has more rows than are read, is named as long as the page is open,
/// and the other tables are shown.
#[test]
fn a_damaged_table_is_named_for_good() {
    let lab = Lab::new();
    lab.finished("tank");
    std::fs::write(lab.runs().join("tank/events.parquet"), "PAR1 no PAR1").expect("room");
    let mut page = lab.page("tank");
    page.find(|message| message["signals"].get(0).cloned());
    // A later look, which sees that there is a report, does not forget it.
    let run = timeloom_results::RunDirectory::open(lab.runs().join("tank")).expect("a run");
    run.write_report("<p>").expect("room");
    let run = page.find(|message| {
        let run = message.get("run")?;
        (run["has_report"] == true).then(|| run.clone())
    });
    let remark = run["remarks"][0].as_str().expect("a remark");
    assert!(remark.starts_with("Reading the events: "), "{run}");
}

/// A page that wishes for logs in a loop gets its lines, and no more often.
#[test]
fn logs_are_read_at_intervals() {
    let lab = Lab::new();
    let run = lab.finished("tank");
    let (mut log, _) = run.log("plc").expect("it can be made");
    let mut page = lab.page("tank");
    let begun = std::time::Instant::now();
    let mut told = 0;
    for number in 0..200 {
        writeln!(log, "{number}").expect("room");
        page.say(r#"{"logs":["plc"]}"#);
        if number % 50 == 0 {
            let last = number.to_string();
            page.find(|message| {
                let lines = message["tails"]["plc"].as_array()?;
                (lines.last()?.as_str()? == last).then_some(())
            });
            told += 1;
        }
    }
    // The first look is at once, and each later one a second after the one before.
    let shortest = std::time::Duration::from_secs(told - 1);
    assert!(begun.elapsed() >= shortest, "{:?}", begun.elapsed());
}

/// Rows of many seconds while a page does not read: it then gets the last state, in far fewer
/// messages and bytes than there were changes.
#[test]
fn a_slow_page_gets_the_latest_state_and_nothing_is_queued() {
    let lab = Lab::new();
    let (_run, recorder) = lab.run("tank");
    let mut slow = lab.page("tank");
    let mut fast = lab.page("tank");
    let (rounds, samples) = (20, 2000);
    let text = "x".repeat(900);
    let mut sent = 0;
    for round in 0..rounds {
        for number in 0..samples {
            let ns = (round * samples + number) * 1_000_000;
            for signal in ["a", "b", "c"] {
                recorder
                    .signal(&sample(signal, ns, number as f64))
                    .expect("room");
            }
            recorder.event(&event(ns, "write", &text)).expect("room");
        }
        recorder.flush().expect("room");
        // One page reads each change; the other none.
        let seen = (round + 1) * samples;
        while fast_seen(&mut fast, &mut sent) < seen {}
    }
    let mut received = 0;
    loop {
        let (message, length) = slow.next();
        received += length;
        if message["events"]["seen"] == rounds * samples {
            break;
        }
    }
    // The kernel buffers some messages; after them comes one difference to the present.
    assert!(received < sent, "{received} of {sent} bytes");
    assert!(
        sent > 15_000_000,
        "more than the kernel's buffers hold: {sent}"
    );
}

/// Returns the number of events that the page knows of after its next message that has any.
fn fast_seen(page: &mut crate::support::Page, sent: &mut usize) -> i64 {
    loop {
        let (message, length) = page.next();
        *sent += length;
        if let Some(seen) = message["events"]["seen"].as_i64() {
            return seen;
        }
    }
}
