//! Tests of scenarios that contain only changes to another.

use std::path::Path;

use timeloom_scenario::{Condition, MachineChecks, Plan, ScenarioErrors, load_for, parse};
use timeloom_time::Duration;

const BASE: &str = r#"
schema = "timeloom/1"
name = "base"
time = { duration = "9 s", mode = "skip" }
[system]
switches = ["s1"]
links = [{ between = ["a", "s1"], rate = "1 Mbit/s" }]
[system.hosts.a]
address = "10.0.0.1/24"
programs = [{ name = "one", run = ["./one", "--slow"] }, { name = "two", run = ["two"] }]
[[attack]]
id = "dos"
at = "3 s"
host = "a"
[simulation.plants.tank]
run = ["tank"]
step = "1 ms"
record = { signals = ["level", "inflow"] }
[[check]]
name = "full"
assert = "min(tank.level) > 1"
when = "attack.dos"
"#;

/// Writes these files to a new directory, with all directories that they name, and loads
/// `main.toml` from there.
fn load(
    files: &[(&str, &str)],
    sets: &[&str],
) -> (Result<Plan, ScenarioErrors>, tempfile::TempDir) {
    let scratch = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = scratch.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    }
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let main = scratch.path().join("main.toml");
    (load_for(main, &sets, MachineChecks::Ignored), scratch)
}

#[test]
fn restated_values_replace_inherited_ones_and_the_rest_stays() {
    let main = r#"
extends = "below/base.toml"
name = "variant"
time.duration = "5 s"
[system]
links = [{ between = ["b", "s1"] }]
[[system.hosts.a.programs]]
name = "one"
start = "1 s"
run = ["./one"]
[[system.hosts.a.programs]]
name = "three"
run = ["./three"]
[system.hosts.b]
address = "10.0.0.2/24"
[[attack]]
id = "dos"
enabled = false
[[attack]]
id = "replay"
at = "4 s"
host = "b"
[simulation.plants.tank.record]
signals = ["level"]
[[check]]
name = "full"
when = "no attack.replay"
"#;
    let (plan, scratch) = load(
        &[("main.toml", main), ("below/base.toml", BASE)],
        &["seed=5"],
    );
    let plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((plan.name.as_str(), plan.seed), ("variant", 5));
    assert_eq!(plan.time.duration, Duration::from_s(5));
    assert_eq!(plan.time.mode, timeloom_scenario::Mode::Skip, "kept");
    let [cable, other] = &plan.system.links[..] else {
        panic!("{:?}", plan.system.links);
    };
    assert_eq!(cable.between, ["a", "s1"]);
    assert!(cable.wire.rate.is_some() && other.wire.rate.is_none());
    assert_eq!(other.between, ["b", "s1"]);
    let [one, two, three] = &plan.system.hosts["a"].programs[..] else {
        panic!("three programs");
    };
    assert_eq!(
        (one.run.clone(), one.start),
        (vec!["./one".to_owned()], Duration::from_s(1))
    );
    assert_eq!((two.name.as_str(), three.name.as_str()), ("two", "three"));
    // Each path must be relative to the file that first named it.
    let below = scratch.path().join("below");
    assert_eq!((&one.directory, &two.directory), (&below, &below));
    assert_eq!(three.directory, scratch.path());
    assert_eq!(plan.simulation.plants["tank"].directory, below);
    let attacks: Vec<_> = plan
        .attacks
        .iter()
        .map(|it| (&*it.id, it.enabled))
        .collect();
    assert_eq!(attacks, [("dos", false), ("replay", true)]);
    assert_eq!(plan.attacks[0].at, Some(Duration::from_s(3)));
    assert_eq!(
        plan.simulation.plants["tank"].record.signals,
        ["level"],
        "texts are replaced"
    );
    assert_eq!(plan.checks.len(), 1);
    assert_eq!(
        plan.checks[0].when,
        Some(Condition::Without("replay".to_owned()))
    );
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
}

#[test]
fn a_file_that_is_extended_may_extend_another() {
    let middle = "extends = \"base.toml\"\nseed = 3\ncheck = []\n";
    let main = "extends = \"middle.toml\"\nname = \"top\"\n";
    let files = [
        ("main.toml", main),
        ("middle.toml", middle),
        ("base.toml", BASE),
    ];
    let (plan, _scratch) = load(&files, &[]);
    let plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        (plan.name.as_str(), plan.seed, plan.checks.len()),
        ("top", 3, 0)
    );
}

#[test]
fn a_mistake_is_shown_in_the_file_that_made_it() {
    let base = BASE.replace("step =", "stepp =");
    let main = "extends = \"base.toml\"\nname = \"a b\"\n[time]\nmode = \"quick\"\n";
    let (plan, _scratch) = load(&[("main.toml", main), ("base.toml", &base)], &["seed=x"]);
    let errors = plan.unwrap_err();
    let told: Vec<(String, usize)> = errors
        .mistakes()
        .iter()
        .map(|it| {
            let file = Path::new(&it.origin)
                .file_name()
                .map(|it| it.to_string_lossy().into());
            (file.unwrap_or_else(|| it.origin.clone()), it.line)
        })
        .collect();
    let of_base = base
        .lines()
        .position(|line| line.contains("stepp"))
        .expect("a line")
        + 1;
    assert!(
        told.contains(&("base.toml".to_owned(), of_base)),
        "{errors}"
    );
    assert!(told.contains(&("main.toml".to_owned(), 2)), "{errors}");
    assert!(told.contains(&("main.toml".to_owned(), 4)), "{errors}");
    let shown = errors.render(false);
    assert!(shown.contains("base.toml:"), "{shown}");
    assert!(shown.contains("stepp = \"1 ms\""), "{shown}");
}

#[test]
fn files_that_cannot_be_extended_are_reported_once() {
    for (main, other, said) in [
        (
            "extends = \"none.toml\"",
            "",
            "`none.toml` cannot be read: ",
        ),
        (
            "extends = \"main.toml\"",
            "",
            "more than 8 files extend one another",
        ),
        (
            "extends = \"other.toml\"",
            "extends = \"main.toml\"",
            "more than 8 files",
        ),
        (
            "extends = [\"a\"]",
            "",
            "`extends` must be a text in quotes, not a list",
        ),
        (
            "extends = \"other.toml\"",
            "a = ",
            "other.toml:1:5: this is not valid TOML",
        ),
    ] {
        let (plan, _scratch) = load(&[("main.toml", main), ("other.toml", other)], &["seed=1"]);
        let errors = plan.unwrap_err();
        assert_eq!(errors.mistakes().len(), 1, "{errors}");
        assert!(errors.to_string().contains(said), "{errors}");
    }
    let errors = parse("extends = \"main.toml\"", "main.toml", &[]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "main.toml:1:11: only a scenario that is read from a file can extend another"
    );
}

/// A scenario may come from an untrusted source and name a file that only the current user may
/// read.
#[test]
fn nothing_is_shown_of_a_file_outside_of_the_scenario_s_directory() {
    let outside = tempfile::tempdir().expect("a directory");
    for secret in [
        "root:$6$hush:20000:0\n",
        "hush = \"hush\"\n",
        "[hush]\nhush = 1\n",
    ] {
        let file = outside.path().join("secret.toml");
        std::fs::write(&file, secret).expect("it can be written");
        let scratch = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(&file, scratch.path().join("link.toml")).expect("a link");
        for name in [file.to_str().expect("UTF-8"), "link.toml"] {
            let main = scratch.path().join("main.toml");
            std::fs::write(&main, format!("extends = {name:?}\n")).expect("it can be written");
            let errors =
                load_for(&main, &[], MachineChecks::Ignored).expect_err("it is no scenario");
            let shown = format!("{errors}\n{}", errors.render(false));
            assert!(!shown.contains("hush"), "{shown}");
            assert!(shown.contains("main.toml:1:11"), "{shown}");
            assert!(shown.contains("see `timeloom check"), "{shown}");
        }
    }
    // A valid file may be anywhere.
    let base = outside.path().join("base.toml");
    std::fs::write(&base, BASE).expect("it can be written");
    let main = format!(
        "extends = {:?}\nname = \"other\"\n",
        base.display().to_string()
    );
    let (plan, _scratch) = load(&[("main.toml", &main)], &[]);
    assert_eq!(
        plan.unwrap_or_else(|errors| panic!("{errors}")).name,
        "other"
    );
    // A mistake in the extending file itself must be shown.
    let (plan, _scratch) = load(&[("main.toml", &format!("{main}seed = -1\n"))], &[]);
    let errors = plan.expect_err("a seed is none");
    assert!(errors.to_string().contains("main.toml:3:8"), "{errors}");
}
