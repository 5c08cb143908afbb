//! A mistake must be found before anything is started, and missing features of the machine must be
//! reported.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::support::{Finished, Lab, Scenario, timeloom};

fn good() -> Scenario {
    Scenario::lasting("1 s")
        .program('a', "ticks", &["python3", "ticks.py", "0.1"], "")
        .plant("{}")
}

/// Checks that the mistake is reported with these words, and that nothing was created or started.
fn assert_refused(lab: &Lab, run: &Finished, words: &[&str]) {
    assert_eq!(run.code, 2, "{}", run.output());
    for word in words {
        assert!(run.stderr.contains(word), "no {word:?} in {}", run.output());
    }
    assert!(run.stdout.is_empty(), "{}", run.output());
    assert!(!lab.run_path().exists(), "a run directory was made");
    assert!(
        !lab.path().join("started").exists(),
        "a program was started"
    );
    lab.assert_nothing_left();
}

#[test]
fn a_mistake_is_named_with_its_place_and_its_mend() {
    let text = good().to_toml().replace("seed = 7", "sead = 7");
    let line = text
        .lines()
        .position(|line| line == "sead = 7")
        .expect("replaced")
        + 1;
    let lab = Lab::with_text(&text);
    let run = lab.run(&[]);
    let place = format!("scenario.toml:{line}");
    assert_refused(
        &lab,
        &run,
        &[&place, "unknown key `sead`", "did you mean `seed`?"],
    );
}

#[test]
fn all_mistakes_are_named_at_once_and_no_good_part_is_started() {
    // The plant is valid and comes first. If it were started, it would leave a file.
    let text = good()
        .to_toml()
        .replace("\"plant.py\"", "\"-c\", \"open('started', 'w')\"")
        .replace("10.0.0.2/24", "10.0.0.1/24")
        .replace("world.level", "word.level");
    let lab = Lab::with_text(&text);
    let run = lab.run(&[]);
    assert_refused(&lab, &run, &["10.0.0.1", "word", "did you mean", "world"]);
}

#[test]
fn a_mistake_in_a_set_points_to_the_set() {
    let lab = Lab::new(&good());
    let run = lab.run(&["time.dilatoin=3"]);
    assert_refused(&lab, &run, &["time.dilatoin=3", "did you mean `dilation`?"]);
}

/// Words after the program are its arguments. A word before it is an option of `exec` or a mistake.
#[test]
fn a_mistyped_option_of_exec_is_not_taken_for_the_program() {
    let exec = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command
            .arg("exec")
            .args(arguments)
            .output()
            .expect("it starts")
    };
    let slip = exec(&["--dilation", "10", "--", "true"]);
    assert_eq!(slip.status.code(), Some(2));
    let said = String::from_utf8_lossy(&slip.stderr).into_owned();
    assert!(
        said.contains("`--dilate`") || said.contains("'--dilate'"),
        "{said}"
    );
    let fine = exec(&["echo", "--dilation", "10"]);
    assert_eq!(fine.stdout, b"--dilation 10\n");
}

#[test]
fn a_file_that_is_not_there_is_said_to_be_missing() {
    let lab = Lab::new(&good());
    let run = lab.start_file(&lab.path().join("other.toml"), &[]).wait();
    assert_refused(&lab, &run, &["other.toml"]);
}

#[test]
fn a_program_that_does_not_exist_is_found_before_anything_is_started() {
    let scenario = good().program('b', "late", &["no-such-program"], "start = \"500 ms\"");
    let lab = Lab::new(&scenario);
    assert_refused(
        &lab,
        &lab.run(&[]),
        &["`no-such-program` is not found on the PATH", "install it"],
    );
}

/// Only the plant knows the names of its signals, so the mistake is found after the plant's start.
/// It must be shown as by `check --ask-plants`, the plant must be ended, and no directory may be
/// left.
#[test]
fn a_signal_that_the_plant_does_not_have_is_a_mistake_too() {
    let text = good().to_toml();
    for (right, wrong) in [("world.level\"", "world.levl\""), ("\"walk\"", "\"wlk\"")] {
        assert!(text.contains(right), "{text}");
        let lab = Lab::with_text(&text.replacen(right, wrong, 1));
        let run = lab.run(&[]);
        let meant = right.trim_matches('"').trim_start_matches("world.");
        let hint = format!("did you mean `{meant}`?");
        assert_refused(&lab, &run, &["scenario.toml:", &hint]);
        let (code, said) = check(&lab, &["--ask-plants"]);
        assert_eq!(code, Some(2), "{said}");
        let place = |text: &str| {
            let line = text.lines().find(|line| line.contains("--> "));
            line.expect("a place").rsplit('/').next().map(str::to_owned)
        };
        assert_eq!(place(&said), place(&run.stderr), "{said}");
        assert!(said.contains(&hint), "{said}");
    }
}

/// The missing file is, for example, a script that is an argument of Python.
#[test]
fn a_script_that_is_not_there_is_found_before_anything_is_started() {
    for (run, file) in [
        (&["python3", "gone.py", "0.1"][..], "gone.py"),
        (&["python3", "-u", "-X", "dev", "gone.py"], "gone.py"),
        (&["bash", "-e", "gone.sh"], "gone.sh"),
    ] {
        let lab = Lab::new(&good().program('b', "late", run, "start = \"500 ms\""));
        let missing = format!("/{file}`");
        let words = [
            "scenario.toml:",
            "there is no file `",
            &missing,
            "`directory`",
        ];
        assert_refused(&lab, &lab.run(&[]), &words);
        let (code, said) = check(&lab, &[]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&missing), "{said}");
    }
    let plant = good().to_toml().replace("\"plant.py\"", "\"plan.py\"");
    let lab = Lab::with_text(&plant);
    assert_refused(&lab, &lab.run(&[]), &["there is no file `", "/plan.py`"]);
}

/// Returns the exit code and the stderr of `timeloom check`.
fn check(lab: &Lab, options: &[&str]) -> (Option<i32>, String) {
    let file = lab.path().join("scenario.toml");
    let arguments = ["check", file.to_str().expect("UTF-8")];
    let ended = timeloom(&[&arguments, options].concat());
    lab.assert_nothing_left();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), said)
}

/// The test uses a copy of the program, because other users cannot read the directory of the build.
/// `exec` must work without root as far as possible, and `run` must report that it needs root.
#[test]
fn without_root_exec_works_and_run_reports_that_it_needs_root() {
    let scenario = Scenario::lasting("1 s").program('a', "sleep", &["sleep", "1000"], "");
    let lab = Lab::new(&scenario);
    let home = lab.path();
    let binary = home.join("timeloom");
    fs::copy(env!("CARGO_BIN_EXE_timeloom"), &binary).expect("a copy");
    for path in [home, &binary] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    chown(home, Some(NOBODY), Some(NOBODY)).expect("root may");
    let as_nobody = |arguments: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary)
            .args(arguments)
            .current_dir(home)
            .env("XDG_RUNTIME_DIR", home.join("runtime"))
            .env("HOME", home)
            .output()
            .expect("setpriv of util-linux is installed");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };

    let (code, out, err) = as_nobody(&[
        "exec",
        "--start",
        "2019-06-03T12:00:00Z",
        "date",
        "-u",
        "+%F %H",
    ]);
    assert_eq!((code, out.trim()), (Some(0), "2019-06-03 12"), "{err}");

    let (code, _, err) = as_nobody(&["run", "-o", "run", "scenario.toml"]);
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("root") || err.contains("CAP_SYS_ADMIN"),
        "{err}"
    );
    assert!(err.contains("timeloom doctor"), "{err}");
}

const NOBODY: u32 = 65534;

/// A finished run must not be overwritten by mistake, and the refusal must leave it unchanged.
#[test]
fn a_run_directory_is_replaced_only_when_that_is_said() {
    let ticks = ["python3", "ticks.py", "0.1"];
    let lab = Lab::new(&Scenario::lasting("300 ms").program('a', "ticks", &ticks, ""));
    let first = lab.run(&[]).succeeded();
    let started = first.manifest().started;
    let kept = first.manifest().inputs;
    let copy = kept.iter().find(|it| it.path.ends_with("ticks.py"));
    let copy = copy
        .and_then(|it| it.kept.clone())
        .expect("the script is kept");
    let text = std::fs::read_to_string(first.path().join(copy));
    assert_eq!(text.expect("readable"), include_str!("programs/ticks.py"));

    let second = lab.run(&[]);
    assert_eq!(second.code, 2, "{}", second.output());
    assert!(second.stderr.contains("--replace"), "{}", second.output());
    assert_eq!(second.manifest().started, started);

    let third = lab.start_with(&["--replace"], &[]).wait().succeeded();
    assert_ne!(third.manifest().started, started);
}

/// A scenario may come from an untrusted source, so `check` must start none of its programs without
/// the option.
#[test]
fn check_starts_a_plant_only_when_it_is_to_ask_it() {
    let text = good().to_toml();
    let plant = "\"-c\", \"open('started', 'w')\"";
    let lab = Lab::with_text(&text.replace("\"plant.py\"", plant));
    let started = lab.path().join("started");
    let (code, said) = check(&lab, &[]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(!started.exists(), "check started the plant");
    let (code, said) = check(&lab, &["--ask-plants"]);
    assert_eq!(code, Some(0), "a plant that does not answer is no mistake");
    assert!(said.contains("`world` were not checked"), "{said}");
    assert!(started.exists(), "the plant was not asked");
    let lab = Lab::new(&good());
    assert_eq!(check(&lab, &["--ask-plants"]), (Some(0), String::new()));
}
