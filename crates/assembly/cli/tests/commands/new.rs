//! Tests of `timeloom new`, and of the files for packages.

use timeloom_test_support::need_root;

use crate::support::{Scratch, timeloom};

#[test]
fn scenarios_created_by_new_run_unchanged() {
    need_root();
    let scratch = Scratch::new("new");
    for (kind, duration, check) in [
        ("tank", "30 s", "check no-overflow: holds"),
        // Time can hardly skip over a network that is never idle.
        ("network", "3 s", "reached the end"),
        ("attack", "30 s", "check overflows: holds"),
        ("robot", "8 s", "check returns: holds"),
    ] {
        let directory = scratch.text(kind);
        let made = timeloom(&["new", kind, &directory]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        let scenario = format!("{directory}/experiment.toml");
        assert!(made.out.contains(&scenario), "it says what to do next");
        let checked = timeloom(&["check", &scenario]);
        assert_eq!(
            (checked.code, checked.err.as_str()),
            (Some(0), ""),
            "{kind}"
        );
        let run = scratch.text(&format!("run-{kind}"));
        let duration = format!("time.duration={duration}");
        let sets = ["--set", "time.mode=skip", "--set", &duration];
        let ended = timeloom(&[&["run", &scenario, "-o", &run], &sets[..]].concat());
        // A busy machine may be too slow for a simulated network. The run then reports that.
        let is_late = kind == "network" && ended.code == Some(4);
        let is_well = ended.code == Some(0) || is_late;
        assert!(
            is_well,
            "{kind}: {:?}: {}{}",
            ended.code, ended.out, ended.err
        );
        assert!(ended.out.contains(check), "{kind}: {}", ended.out);
    }
}

#[test]
fn new_writes_over_nothing() {
    let scratch = Scratch::new("new-again");
    let directory = scratch.text("tank");
    assert_eq!(timeloom(&["new", "tank", &directory]).code, Some(0));
    let file = scratch.path("tank/tank.py");
    std::fs::write(&file, "mine").expect("it can be written");
    let again = timeloom(&["new", "robot", &directory]);
    assert_eq!(again.code, Some(2), "{}", again.out);
    assert!(again.err.contains("is not empty"), "{}", again.err);
    let text = std::fs::read_to_string(&file);
    assert_eq!(text.expect("it is there"), "mine");
    assert!(!scratch.path("tank/arm.py").exists());
    let unknown = timeloom(&["new", "robto", &scratch.text("other")]);
    assert_eq!(unknown.code, Some(2));
    assert!(!scratch.path("other").exists());
}

#[test]
fn completion_scripts_contain_the_commands_and_options() {
    for (shell, words) in [
        ("bash", ["complete -F _timeloom", "--dilate", "run-until"]),
        ("zsh", ["#compdef timeloom", "--dilate", "run-until"]),
        ("fish", ["complete -c timeloom", "-l dilate", "run-until"]),
    ] {
        let made = timeloom(&["completions", shell]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        for word in words {
            assert!(made.out.contains(word), "{shell}: no {word}");
        }
    }
    // Bash must accept the script.
    let script = timeloom(&["completions", "bash"]).out;
    let taken = std::process::Command::new("bash")
        .args(["-c", &format!("{script}\ncomplete -p timeloom")])
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&taken.stdout);
    assert!(text.contains("_timeloom"), "{taken:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let scratch = Scratch::new("man");
    let made = timeloom(&["man", &scratch.text("man1")]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    for (page, words) in [
        ("timeloom", "run\\-until"),
        ("timeloom-exec", "\\-\\-dilate"),
        ("timeloom-ptp-lab", "\\-\\-hops"),
        ("timeloom-timeline-serve", "\\-\\-config"),
    ] {
        let text = std::fs::read_to_string(scratch.path(&format!("man1/{page}.1")));
        let text = text.unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(
            text.contains(".TH") && text.contains(words),
            "{page}: {text}"
        );
    }
    let count = std::fs::read_dir(scratch.path("man1"))
        .expect("it is there")
        .count();
    assert!(
        made.out.starts_with(&format!("{count} manual pages")),
        "{}",
        made.out
    );
}
