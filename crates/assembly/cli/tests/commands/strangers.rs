//! Commands that read another user's run directory: files prepared by that user must do no harm.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Scratch, timeloom};
use timeloom_results::{EventRow, Manifest, Outcome, RunDirectory};
use timeloom_time::Instant;

/// Output of a hostile program with control sequences, which set the title, request a typed reply,
/// clear the screen, and overwrite a line.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[6n\u{1b}[2Jdone\rfailed\u{9b}31m\u{202e}txt";

/// Makes a finished run whose log, event and culprit contain `text`.
fn make_run(path: &Path, text: &str) {
    let run = RunDirectory::create(path).unwrap();
    let mut manifest = Manifest::begin("tank", 7, Instant::ZERO, b"");
    let recorder = run.recorder().unwrap();
    let event = EventRow {
        t_virtual: Instant::ZERO,
        t_wall: Instant::ZERO,
        host: "local".into(),
        source: "plc".into(),
        kind: "start".into(),
        text: text.into(),
    };
    recorder.event(&event).unwrap();
    recorder.finish().unwrap();
    run.write_scenario("schema = \"timeloom/1\"\n").unwrap();
    let log = format!("[    0.000001] {text}\n");
    fs::write(path.join("logs/plc.log"), log).unwrap();
    manifest.outcome = Outcome::Failed;
    manifest.culprit = Some(text.to_owned());
    run.write_manifest(&manifest).unwrap();
}

/// Makes two runs that differ.
fn two(scratch: &Scratch) -> [String; 2] {
    make_run(&scratch.path("a"), "one");
    make_run(&scratch.path("b"), "other");
    ["a", "b"].map(|name| scratch.text(name))
}

#[test]
fn a_page_beside_a_run_is_not_written_through_a_planted_link() {
    let scratch = Scratch::new("strangers-page");
    let [a, b] = two(&scratch);
    let precious = scratch.path("precious");
    fs::write(&precious, "precious\n").unwrap();
    let page = scratch.path("compare-a-b.html");
    symlink(&precious, &page).unwrap();
    let named = scratch.path("named.html");
    symlink(&precious, &named).unwrap();
    let named = named.to_str().unwrap();
    let runs: [&[&str]; 3] = [
        &["compare", &a, &b],
        &["compare", &a, &b, "-o", named],
        &["report", &a, "-o", named],
    ];
    for arguments in runs {
        let ended = timeloom(arguments);
        assert_eq!(
            ended.code,
            Some(1),
            "{arguments:?}: {}{}",
            ended.out,
            ended.err
        );
        assert!(ended.err.contains("symbolic link"), "{}", ended.err);
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious\n");
    fs::remove_file(&page).unwrap();
    let ended = timeloom(&["compare", &a, &b]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("<h1>b against a</h1>")
    );
}

/// Function that makes a file at the first path; a link leads to the second path.
type Plant = fn(&Path, &Path);

/// No command may block on a FIFO, show the target of a link, or read a sparse file.
#[test]
fn files_that_are_none_are_named_and_not_read() {
    let kinds: [(&str, Plant); 3] = [
        ("FIFO", |at, _| {
            assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
        }),
        ("symbolic link", |at, secret| symlink(secret, at).unwrap()),
        ("device", |at, _| {
            let made = Command::new("mknod").arg(at).args(["c", "1", "5"]).status();
            assert!(made.unwrap().success(), "as root");
        }),
    ];
    for (kind, plant) in kinds {
        for name in ["scenario.toml", "logs/plc.log", "manifest.json"] {
            let scratch = Scratch::new(&format!("strangers-{}", name.replace('/', "-")));
            let [a, b] = two(&scratch);
            let secret = scratch.path("secret");
            fs::write(&secret, "secret = 1\n").unwrap();
            let place = scratch.path("b").join(name);
            fs::remove_file(&place).unwrap();
            plant(&place, &secret);
            let mut all = vec![timeloom(&["report", &b])];
            if name == "logs/plc.log" {
                let one = [
                    timeloom(&["compare", &a, &b, "--json"]),
                    timeloom(&["logs", "--run", &b]),
                ];
                for ended in &one {
                    assert_ne!(ended.code, Some(0), "{kind}: {}", ended.out);
                    assert!(ended.err.contains(kind), "{kind}: {}", ended.err);
                }
                all.extend(one);
            } else if name == "scenario.toml" {
                assert!(all[0].err.contains(kind), "{kind}: {}", all[0].err);
            }
            for Ended { out, err, .. } in all {
                assert!(!out.contains("secret = 1") && !err.contains("secret = 1"));
            }
        }
    }
}

/// On a terminal, escape sequences must be made visible; a pipe must receive the bytes unchanged.
#[test]
fn escape_sequences_do_not_reach_a_terminal() {
    let scratch = Scratch::new("strangers-terminal");
    make_run(&scratch.path("a"), HOSTILE);
    make_run(&scratch.path("b"), &format!("{HOSTILE} again"));
    let [a, b] = ["a", "b"].map(|name| scratch.text(name));
    let piped = timeloom(&["logs", "--run", &a]);
    assert!(piped.out.contains(HOSTILE), "{:?}", piped.out);
    let runs: [&[&str]; 4] = [
        &["logs", "--run", &a],
        &["logs", "--json", "--run", &a],
        &["compare", &a, &b],
        &["compare", "--json", &a, &b],
    ];
    for arguments in runs {
        let shown = in_terminal(arguments);
        assert!(shown.contains("failed"), "{arguments:?}: {shown:?}");
        let acted_upon = |c: char| c.is_control() && !"\r\n\t".contains(c) || c == '\u{202e}';
        assert!(!shown.contains(acted_upon), "{arguments:?}: {shown:?}");
        // Only the carriage returns that the terminal itself adds may be left.
        assert!(!shown.replace("\r\n", "").contains('\r'), "{shown:?}");
        if arguments.contains(&"--json") {
            let object: serde_json::Value = serde_json::from_str(shown.trim()).expect(&shown);
            assert!(object.to_string().contains("failed"));
        }
    }
    // Errors must be filtered on every kind of output.
    let name = scratch.path("a").join("scenario.toml");
    fs::write(name, format!("schema = \"{HOSTILE}\"\n")).unwrap();
    let ended = timeloom(&["report", &a]);
    assert!(ended.err.contains("cannot be used"), "{}", ended.err);
    assert!(!ended.err.contains('\u{1b}'), "{:?}", ended.err);
}

/// Returns the output of a command that runs on a terminal of its own.
fn in_terminal(arguments: &[&str]) -> String {
    let words: Vec<String> = std::iter::once(&env!("CARGO_BIN_EXE_timeloom"))
        .chain(arguments)
        .map(|word| format!("'{word}'"))
        .collect();
    let output = Command::new("script")
        .args(["-qec", &words.join(" "), "/dev/null"])
        .output()
        .expect("there is script, of bsdutils");
    String::from_utf8(output.stdout).expect("text")
}
