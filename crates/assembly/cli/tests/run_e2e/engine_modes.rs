//! One simulated network in two engines in every time mode: the example `engines`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use timeloom_results::{EventRow, RunDirectory, SignalRow, compare_runs};

use crate::support::{Finished, Lab, Running, log_lines, patiently, repository, timeloom};

const NONE: &str = "time.compute=none";
pub(crate) const REPRODUCIBLE: [&str; 2] = ["time.mode=skip", NONE];
const FREE: &str = "network.engines.mode=free";

/// Returns the example; `parts` of its network in engines of their own, or in one engine. `more` is
/// added to its scenario.
pub(crate) fn example(is_cut: bool, more: &str) -> Lab {
    let folder = repository().join("examples/engines");
    let text = fs::read_to_string(folder.join("sites.toml")).expect("it can be read");
    let table = "[network.engines]
mode = \"exact\"
parts = { field = [\"net-left\"], office = [\"net-right\"] }
";
    assert!(text.contains(table), "{text}");
    let text = match is_cut {
        true => text,
        false => text.replace(table, ""),
    };
    let lab = Lab::with_text(&format!("{text}{more}"));
    for file in ["sensor.py", "controller.py"] {
        fs::copy(folder.join(file), lab.path().join(file)).expect("it can be copied");
    }
    lab
}

/// Returns the readings that the controller has printed.
fn readings(run: &Finished) -> Vec<String> {
    let lines = log_lines(run.path(), "controller").into_iter();
    let lines = lines.map(|(_, line)| line);
    lines.filter(|line| line.starts_with("reading ")).collect()
}

/// Returns all signals but those of the traffic between engines, which one engine does not have.
/// Values are bits.
pub(crate) fn signals(run: &RunDirectory) -> BTreeMap<String, Vec<(i64, u64)>> {
    let mut signals: BTreeMap<String, Vec<(i64, u64)>> = BTreeMap::new();
    run.for_each(|row: SignalRow| {
        let name = format!("{}.{}", row.source, row.name);
        if !name.starts_with("net.cut.") {
            let sample = (row.t_virtual.as_ns(), row.value.to_bits());
            signals.entry(name).or_default().push(sample);
        }
        Ok(())
    })
    .expect("the signals can be read");
    signals
}

/// Returns all events but those about the machine's load and about the engines.
pub(crate) fn events(run: &RunDirectory) -> Vec<(i64, String, String, String)> {
    let mut events = Vec::new();
    run.for_each(|row: EventRow| {
        let is_of_engines = matches!(
            (&*row.source, &*row.kind),
            ("timeloom", "order") | ("network", "summary" | "untrusted" | "cut")
        );
        if !is_of_engines {
            let [source, kind, text] = [row.source, row.kind, row.text].map(|it| it.to_string());
            events.push((row.t_virtual.as_ns(), source, kind, text));
        }
        Ok(())
    })
    .expect("the events can be read");
    // Events that several threads record at one instant have no defined order.
    events.sort();
    events
}

/// Returns the bytes of the programs' logs.
pub(crate) fn logs(run: &Finished) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(run.path().join("logs")).expect("there are logs");
    let files = files.map(|file| file.expect("it can be listed"));
    files
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).expect("it can be read"))
        })
        .collect()
}

/// Returns the frames of the capture between the sites, with their instants: of each packet block of
/// the file (type 6) the time stamp and the data, without the identification that the kernel draws
/// for an IPv4 packet and the checksum over it.
fn frames(run: &Finished) -> Vec<(u64, Vec<u8>)> {
    let path = run.path().join("net/net-left-net-right.pcapng");
    let bytes = fs::read(path).expect("there is a capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut frames = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        if word(at) == 6 {
            let stamp = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let captured = word(at + 20) as usize;
            let mut frame = bytes[at + 28..at + 28 + captured].to_vec();
            if frame[12..14] == [8, 0] {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
            }
            frames.push((stamp, frame));
        }
        at += length;
    }
    frames
}

/// Signals, events, the bytes of captured frames, and those of all logs.
#[test]
fn two_engines_give_the_bytes_of_one_if_computing_takes_no_time() {
    let labs = [true, true, false].map(|is_cut| example(is_cut, ""));
    // Frames are stamped with the date.
    let sets = [
        REPRODUCIBLE[0],
        REPRODUCIBLE[1],
        "time.start=2026-05-04T03:02:01Z",
    ];
    let runs = labs.each_ref().map(|lab| lab.run(&sets).succeeded());
    let [cut, again, whole] = runs.each_ref().map(Finished::directory);
    let compared = compare_runs(&cut, &again).expect("they can be read");
    assert_eq!((compared.difference, compared.text), (None, None));

    assert_eq!(readings(&runs[0]).len(), 15, "{}", runs[0].output());
    assert_eq!(logs(&runs[0]), logs(&runs[2]));
    let [of_cut, of_whole] = [&cut, &whole].map(signals);
    let names = |signals: &BTreeMap<String, _>| signals.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&of_cut), names(&of_whole));
    for (name, samples) in &of_cut {
        assert_eq!(Some(samples), of_whole.get(name), "{name}");
    }
    assert!(of_cut.len() > 10, "{:?}", names(&of_cut));
    assert_eq!(events(&cut), events(&whole));
    let captured = frames(&runs[0]);
    // A question and an answer of each sensor.
    assert!(captured.len() >= 90, "{} frames", captured.len());
    assert!(captured.is_sorted_by_key(|(at, _)| *at));
    let of_whole = frames(&runs[2]);
    let different = captured
        .iter()
        .zip(&of_whole)
        .find(|(one, other)| one != other);
    assert_eq!((different, captured.len()), (None, of_whole.len()));
}

/// Three routers with cables of 8 and 3 ms between them, of which the first loses packets; behind
/// the first `near`, which fetches pages from `far` behind the last.
const LOSSY: &str = r#"
schema = "timeloom/1"
name = "lossy"
seed = 4
time = { duration = "20 s", start = "2026-05-04T03:02:01Z" }
[network]
routers = ["r1", "r2", "r3"]
[network.engines]
mode = "exact"
parts = { one = ["r1"], two = ["r2"], three = ["r3"] }
[system]
links = [
    { between = ["near", "r1"], rate = "100 Mbit/s" },
    { between = ["r1", "r2"], rate = "20 Mbit/s", delay = "8 ms", loss = 0.02 },
    { between = ["r2", "r3"], rate = "50 Mbit/s", delay = "3 ms" },
    { between = ["r3", "far"], rate = "100 Mbit/s" },
]
[system.hosts.near]
address = "10.1.0.2/24"
[[system.hosts.near.programs]]
name = "ask"
run = ["sh", "-c", """
ping -c 1 -W 10 -s 4000 10.2.0.2
for size in 300000 20000 600000; do
    curl -sS -o /dev/null -w '%{size_download} bytes, %{http_code}, %{time_total} s\\n' \
        http://10.2.0.2/$size
done
"""]
after = ["web"]
essential = false
[system.hosts.far]
address = "10.2.0.2/24"
[[system.hosts.far.programs]]
name = "web"
run = ["python3", "-u", "-S", "-c", """
import socket
server = socket.create_server(("", 80))
print("listening")
while True:
    line, _ = server.accept()
    asked = b""
    while b"\\r\\n\\r\\n" not in asked:
        asked += line.recv(4096)
    size = int(asked.split()[1][1:])
    line.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % size + b"x" * size)
    line.close()
"""]
ready = "log:listening"
"#;

/// The kernels' TCP, with losses, and with trains of segments that the links cut: the instants of
/// all segments depend on those of the acknowledgements before.
#[test]
fn kernels_behave_the_same_over_three_engines_if_computing_takes_no_time() {
    let (before, rest) = LOSSY.split_once("[network.engines]").expect("it is there");
    let (_, after) = rest.split_once("[system]").expect("it is there");
    let whole = format!("{before}[system]{after}");
    let labs = [LOSSY, &whole].map(Lab::with_text);
    let runs = labs
        .each_ref()
        .map(|lab| lab.run(&REPRODUCIBLE).succeeded());
    let lines = log_lines(runs[0].path(), "ask");
    let got = lines
        .iter()
        .filter(|(_, line)| line.contains("bytes, 200, "));
    assert_eq!(got.count(), 3, "{lines:?}");
    let [cut, whole] = runs.each_ref().map(Finished::directory);
    assert_eq!(logs(&runs[0]), logs(&runs[1]));
    let [of_cut, of_whole] = [&cut, &whole].map(signals);
    assert!(of_cut.contains_key("net.link.r1-r2.loss"), "{of_cut:?}");
    for (name, samples) in &of_cut {
        assert_eq!(Some(samples), of_whole.get(name), "{name}");
    }
    assert_eq!(events(&cut), events(&whole));
}

/// Also without reports of the scheduler.
#[test]
fn two_engines_need_no_bpf_if_computing_takes_no_time() {
    let labs = [true, true].map(|is_cut| example(is_cut, ""));
    let by_events = labs[0].run(&REPRODUCIBLE).succeeded();
    let by_looking = labs[1].run_without_bpf(&REPRODUCIBLE).succeeded();
    let compared = compare_runs(&by_events.directory(), &by_looking.directory());
    let compared = compared.expect("they can be read");
    assert_eq!((compared.difference, compared.text), (None, None));
}

/// Settings of runs in which computing takes time: a run is ended when the controller has finished,
/// since programs start slowly on a busy machine.
const LONG: &str = "time.duration=600 s";
const FINISHED: &str = "the slowest answer";

/// Ends a run whose controller has finished; returns the readings.
fn finished(lab: &Lab, mut run: Running<'_>) -> Vec<String> {
    run.wait_for_line("controller", FINISHED);
    let run = run.stop();
    lab.assert_nothing_left();
    for event in run.directory().events().expect("readable") {
        let in_time = " 0 of them after their instant";
        let is_late = &*event.kind == "cut" && !event.text.contains(in_time);
        assert!(!is_late, "{event:?}");
    }
    readings(&run)
}

#[test]
fn in_every_mode_the_programs_over_two_engines_get_the_same_results() {
    let run = |is_cut: bool, mode: &str| {
        let lab = example(is_cut, "");
        let mode = format!("time.mode={mode}");
        finished(&lab, lab.start(&[&mode, LONG]))
    };
    let expected = run(false, "virtual");
    assert_eq!(expected.len(), 15, "{expected:?}");
    assert_eq!(expected[0], "reading 1: 13.2 80.7 1.1");
    assert_eq!(run(true, "virtual"), expected);
    assert_eq!(run(true, "skip"), expected);
    let lab = example(true, "");
    assert_eq!(readings(&lab.run(&REPRODUCIBLE).succeeded()), expected);
}

/// Grants time up to a multiple of 100 ms, as a user would; returns the standing. At first there is
/// no session, and later the granter before this one may not have left yet.
fn grant(lab: &Lab, step: i64) -> Value {
    let until = format!("{} ms", 100 * step);
    let mut answer = Err(String::new());
    patiently(Duration::from_secs(120), || {
        let output = timeloom(&["run-until", &until, "--name", lab.name(), "--json"]);
        answer = match output.status.success() {
            true => Ok(output.stdout),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        };
        answer.is_ok()
    });
    let answer = answer.unwrap_or_else(|said| panic!("{until}: {said}"));
    let status: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(status["virtual_ns"], 100_000_000 * step, "{status}");
    status["standing"].clone()
}

/// Time is granted in steps of 100 ms, and the next event of the network is told after each: it is
/// the same in one engine and in two.
#[test]
fn a_granter_is_told_of_the_next_event_of_two_engines() {
    let run = |is_cut: bool| {
        let lab = example(is_cut, "");
        let run = lab.start(&["time.mode=stepped", "time.stepped.skip=true", NONE]);
        let mut standing = grant(&lab, 1);
        let mut deadlines = Vec::new();
        for step in 2..=40 {
            let next_ns = standing["next_deadline_ns"].as_i64().expect("traffic");
            // The simulated traffic is never silent for so long.
            assert!(next_ns <= 100_000_000 * step, "{standing}");
            deadlines.push(next_ns);
            standing = grant(&lab, step);
        }
        assert_eq!(standing["ended"], true, "{standing}");
        (readings(&run.wait().succeeded()), deadlines)
    };
    let whole = run(false);
    assert_eq!(whole.0.len(), 15, "{whole:?}");
    assert_eq!(run(true), whole);
}

#[test]
fn programs_over_two_engines_compute_in_granted_time() {
    for more in ["time.stepped.skip=false", "time.stepped.skip=true"] {
        let lab = example(true, "");
        let run = lab.start(&["time.mode=stepped", more, LONG]);
        grant(&lab, 1);
        let has_finished = || {
            let log = fs::read_to_string(lab.run_path().join("logs/controller.log"));
            log.is_ok_and(|log| log.contains(FINISHED))
        };
        for step in 2..6000 {
            grant(&lab, step);
            if has_finished() {
                break;
            }
        }
        let found = finished(&lab, run);
        assert_eq!(found.len(), 15, "{more}: {found:?}");
        assert_eq!(found[14], "reading 15: 13.0 80.5 0.9", "{more}");
    }
}

#[test]
fn free_engines_are_refused_where_time_skips_before_anything_starts() {
    for sets in [
        &["time.mode=skip"][..],
        &["time.mode=stepped"],
        &REPRODUCIBLE,
    ] {
        let lab = example(true, "");
        let run = lab.run(&[sets, &[FREE]].concat());
        assert_eq!(run.code, 2, "{}", run.output());
        let reason = "engines of mode `free` cannot run where time skips or is granted";
        assert!(run.stderr.contains(reason), "{}", run.output());
        let fix = "write `mode = \"exact\"` under `network.engines`";
        assert!(run.stderr.contains(fix), "{}", run.output());
        assert!(!run.path().exists());
    }
}
