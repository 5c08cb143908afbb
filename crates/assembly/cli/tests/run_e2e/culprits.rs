//! A process dies, hangs or sends invalid data. The run must stop, name the culprit and keep all
//! results so far.

use std::os::unix::fs::PermissionsExt;

use timeloom_results::SignalRow;

use crate::support::{Finished, Lab, Scenario, place, samples};

const POLL: &[&str] = &["python3", "poll.py", "10.0.0.10", "0.02"];

/// Returns a scenario with a plant and a client that queries it. Its duration is so long that only
/// a failure can end it.
fn healthy(config: &str) -> Scenario {
    answering_within("60 s", config)
}

/// Returns such a scenario with a timeout for the plant's answers. (Without a fault, a plant may be
/// slow on a busy machine.)
fn answering_within(timeout: &str, config: &str) -> Scenario {
    Scenario::lasting("60 s")
        .program(
            'b',
            "client",
            POLL,
            "ready = \"log:sample\"\nready_timeout = \"30 s\"",
        )
        .plant_with(config, &format!("timeout = \"{timeout}\""))
}

/// Returns the scenario without a fault and with one more program, on host `a`, which starts once
/// the client has an answer.
fn with_program(run: &[&str], more: &str) -> Lab {
    let more = format!("after = [\"client\"]\n{more}");
    Lab::new(&healthy("{}").program('a', "victim", run, &more))
}

/// Runs until the failure, for which the messages must contain these words.
fn fail(lab: &Lab, words: &[&str]) -> Finished {
    let run = lab.run(&[]).blames(words);
    lab.assert_nothing_left();
    // The run must have ended before its planned end.
    assert!(run.manifest().virtual_duration.as_s_f64() < 60.0);
    run
}

/// Checks that the data recorded until shortly before the failure are complete.
fn assert_kept(run: &Finished) {
    let directory = run.directory();
    let mut times = Vec::new();
    directory
        .for_each(|row: SignalRow| {
            if &*row.name == "t_ns" {
                times.push(row.t_virtual.as_ns());
            }
            Ok(())
        })
        .expect("the signals can be read");
    let expected: Vec<i64> = (0..times.len() as i64)
        .map(|step| step * 50_000_000)
        .collect();
    assert_eq!(times, expected, "samples are missing");
    // The plant has computed up to the last answer to the client.
    let last_ns = *times.last().expect("there are samples");
    let log = samples(&place(&directory), "client");
    let told_ns = log.iter().map(|sample| sample.plant).max();
    let told_ns = told_ns.expect("the log of the client has answers");
    assert!(
        last_ns + 50_000_000 > told_ns,
        "the record ends at {last_ns} ns, and the client was told of {told_ns} ns"
    );
    let events = directory.events().expect("the events can be read");
    assert!(
        events
            .iter()
            .any(|row| &*row.source == "client" && &*row.kind == "start")
    );
}

#[test]
fn a_program_that_exits_is_named_with_its_status_and_its_last_words() {
    let lab = with_program(&["python3", "ticks.py", "0.1", "0.5", "3"], "");
    let run = fail(&lab, &["victim", "status 3", "the end of it"]);
    assert_kept(&run);
    let events = run.directory().events().expect("the events can be read");
    let end = events
        .iter()
        .find(|row| &*row.source == "victim" && &*row.kind == "end");
    let end = end.expect("its end is an event");
    assert_eq!((&*end.host, end.text.contains('3')), ("a", true));
    assert!(end.t_virtual.as_ns() >= 500_000_000);
    // Culprit, instant and last lines must be on the console, in the manifest, and at the top of
    // the report.
    let failure = run.manifest().failure.expect("it failed");
    assert_eq!(failure.culprit, "victim");
    assert!(failure.what.contains("host a"), "{}", failure.what);
    assert!(failure.at >= end.t_virtual, "{failure:?}");
    let last = failure.log.last().expect("it has printed");
    assert!(last.starts_with('[') && last.ends_with("the end of it"));
    assert!(
        run.stdout.contains(&format!("  | {last}\n")),
        "{}",
        run.output()
    );
    let report = std::fs::read_to_string(run.path().join("report.html"));
    let report = report.expect("there is a report");
    let banner = report.find("class=\"banner failed\"").expect("it is said");
    assert!(banner < report.find("<table").expect("the runs are a table"));
}

#[test]
fn a_program_that_is_killed_is_named_with_the_signal() {
    let lab = with_program(&["python3", "ticks.py", "0.1", "0.5", "-11"], "");
    let run = fail(&lab, &["victim", "signal 11"]);
    assert_kept(&run);
}

/// A program that ends early, even with success, must end the run unless `essential = false`.
#[test]
fn only_a_program_that_may_end_does_so_without_ending_the_run() {
    let victim = ["python3", "ticks.py", "0.1", "0.3", "0"];
    let lab = Lab::new(&Scenario::lasting("1 s").program('a', "victim", &victim, ""));
    fail(&lab, &["victim", "status 0"]);

    let lab =
        Lab::new(&Scenario::lasting("1 s").program('a', "victim", &victim, "essential = false"));
    let run = lab.run(&[]).succeeded();
    assert_eq!(run.manifest().virtual_duration.as_ns(), 1_000_000_000);
    assert_eq!(run.manifest().culprit, None);
}

#[test]
fn a_program_that_is_not_ready_in_time_is_named_with_the_awaited_condition() {
    let lab = with_program(
        &["python3", "ticks.py", "0.1"],
        "ready = \"tcp:4711\"\nready_timeout = \"400 ms\"",
    );
    let run = fail(&lab, &["victim", "not ready", "4711", "400 ms"]);
    assert_kept(&run);
}

/// A missing file is a mistake in the scenario (see `mistakes`). This file exists and is
/// executable, but its content cannot be executed.
#[test]
fn a_program_that_cannot_be_started_is_named() {
    let lab = with_program(&["./broken"], "");
    let path = lab.path().join("broken");
    std::fs::write(&path, "#!/no/such/interpreter\n").expect("it can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let run = fail(&lab, &["victim", "broken"]);
    assert_kept(&run);
}

#[test]
fn background_processes_of_a_program_end_with_the_run() {
    let lab = with_program(
        &[
            "sh",
            "-c",
            "sleep 1000 & setsid sleep 1000 & sleep 0.3; exit 3",
        ],
        "",
    );
    fail(&lab, &["victim", "status 3"]);
}

/// Tests a plant that misbehaves at half a second of virtual time.
fn misdeed(misdeed: &str, words: &[&str]) {
    let lab = Lab::new(&healthy(&format!(
        "{{ misdeed = \"{misdeed}\", after_ns = 500_000_000 }}"
    )));
    let run = fail(&lab, words);
    assert_kept(&run);
}

#[test]
fn a_plant_that_crashes_is_named_with_the_signal_and_its_last_words() {
    misdeed(
        "abort",
        &["world", "died", "signal: 6", "the solver diverges"],
    );
}

#[test]
fn a_plant_that_hangs_is_named_with_the_time_it_had() {
    let hangs = "{ misdeed = \"hang\", after_ns = 500_000_000 }";
    let lab = Lab::new(&answering_within("500 ms", hangs));
    let run = fail(&lab, &["world", "no answer", "500 ms"]);
    assert_kept(&run);
}

#[test]
fn a_plant_that_answers_nonsense_is_named_with_the_nonsense() {
    misdeed("nonsense", &["world", "malformed message", "Loading model"]);
}

#[test]
fn a_plant_that_answers_nan_is_named() {
    misdeed("nan", &["world", "not finite"]);
}

/// This plant receives no requests. Its death must nevertheless be noticed, because the results
/// would otherwise lack its values without a message.
#[test]
fn a_plant_that_dies_unasked_fails_the_run() {
    let lab = Lab::new(
        &Scenario::lasting("1 s")
            .program('a', "ticks", &["python3", "ticks.py", "0.1"], "")
            .plant("{ misdeed = \"abort-unasked\", after_ns = 300_000_000 }"),
    );
    fail(&lab, &["world", "died"]);
}

#[test]
fn a_plant_that_does_not_start_is_named() {
    let text = healthy("{}")
        .to_toml()
        .replace("\"plant.py\"", "\"-c\", \"raise SystemExit('it is down')\"");
    let lab = Lab::with_text(&text);
    let run = lab.run(&[]);
    assert_eq!(run.code, 1, "{}", run.output());
    assert!(run.stderr.contains("world"), "{}", run.output());
    let culprit = run.manifest().culprit.unwrap_or_default();
    assert!(culprit.contains("world"), "{culprit}");
    lab.assert_nothing_left();
}

/// The run ends a little after 320 ms, while programs are started one after the other. None of them
/// may escape, and remain in a paused testbed for ever.
#[test]
fn programs_that_start_as_the_run_ends_do_not_keep_it() {
    let run = ["sh", "-c", "exit 3"];
    let mut scenario = Scenario::lasting("60 s").program('a', "victim", &run, "start = \"300 ms\"");
    for number in 0..40 {
        let name = format!("late-{number}");
        let start = format!("start = \"{} ms\"", 310 + number);
        scenario = scenario.program('b', &name, &["sleep", "1000"], &start);
    }
    fail(&Lab::new(&scenario), &["victim", "status 3"]);
}

/// A plant is first queried at the end of the run. Its failure must be dated by the instant at
/// which its model fails.
#[test]
fn a_plant_s_failure_is_dated_by_when_it_failed() {
    for (failure, what) in [
        ("raise PlantError('the pump is dry')", "the pump is dry"),
        ("raise KeyError('pump')", "KeyError"),
    ] {
        let plant = format!(
            "
from timeloom.plant import Plant, PlantError, serve
class Pump(Plant):
    def setup(self, config):
        self.signal('flow', 'l/s', 1.0)
    def step(self, t_ns, dt_ns):
        if t_ns >= 300_000_000:
            {failure}
serve(Pump())
"
        );
        let lab = Lab::new(&Scenario::lasting("1 s").and(
            "
[simulation.plants.pump]
run = [\"python3\", \"pump.py\"]
step = \"10 ms\"
",
        ));
        std::fs::write(lab.path().join("pump.py"), plant).expect("there is room");
        let run = lab.run(&[]).blames(&["pump", what]);
        let failure = run.manifest().failure.expect("it failed");
        assert_eq!(failure.at.as_ns(), 300_000_000, "{}", run.output());
        let mut trouble = Vec::new();
        let events = run.directory().for_each(|row: timeloom_results::EventRow| {
            trouble.extend((&*row.kind == "trouble").then_some(row.t_virtual.as_ns()));
            Ok(())
        });
        events.expect("the events can be read");
        assert_eq!(trouble, [300_000_000]);
        lab.assert_nothing_left();
    }
}
