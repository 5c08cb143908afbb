//! Checks of scripts: those that run as root open no path where other users can create a link or a
//! file, and the programs of tests and the packages that they name exist.

use std::fs;
use std::path::Path;

use timeloom_house::Workspace;

/// Directories in which every user can create files.
const SHARED: [&str; 4] = ["/tmp/", "/var/tmp/", "/run/lock/", "/dev/shm/"];

/// Script of which parts run in a separate, emulated machine.
const ELSEWHERE: &str = "test-aarch64";

#[test]
fn no_script_opens_a_predictable_path_in_a_shared_directory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut files = vec![root.join("Makefile"), root.join(".ci/run")];
    for entry in fs::read_dir(root.join("scripts")).expect("the scripts") {
        let path = entry.expect("an entry").path();
        if path.is_file() && !path.ends_with(ELSEWHERE) {
            files.push(path);
        }
    }
    assert!(files.iter().any(|path| path.ends_with("packages")));
    let mut found = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let of_code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        let named = of_code.filter(|line| SHARED.iter().any(|shared| line.contains(shared)));
        found.extend(named.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(
        found.is_empty(),
        "mktemp, /run or the checkout instead: {found:#?}"
    );
}

/// The compiled BPF objects are committed. A file of checksums assigns each object to the source
/// from which `scripts/bpf` compiled it.
#[test]
fn objects_of_bpf_are_of_their_sources() {
    let machinery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machinery");
    for (folder, sums) in [
        ("guest/bpf", "awake.bpf.o.sums"),
        ("fabric/bpf", "cubic.bpf.o.sums"),
    ] {
        let checked = std::process::Command::new("sha256sum")
            .args(["--check", "--strict", sums])
            .current_dir(machinery.join(folder))
            .output()
            .expect("sha256sum of coreutils");
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{said}; run scripts/bpf");
    }
}

/// A hosted machine that had another compiler would check other lints and another formatting.
#[test]
fn the_hosted_machine_has_the_pinned_compiler() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).expect("UTF-8");
    let pinned = read("rust-toolchain.toml");
    let version = pinned
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .expect("a channel")
        .trim_matches('"');
    let workflow = read(".github/workflows/ci.yml");
    let image = format!("image: rust:{version}-bookworm");
    assert!(
        workflow.lines().any(|line| line.trim() == image),
        "no {image}"
    );
    assert!(
        workflow.lines().any(|line| line.trim() == "- run: .ci/run"),
        "the workflow does not call .ci/run"
    );
}

/// `cargo` fails for an unknown package only when the script runs, and a program that was not
/// copied is noticed only in the emulated machine.
#[test]
fn packages_and_programs_of_tests_that_scripts_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let packages = Workspace::read().packages;
    let mut wrong = Vec::new();
    for name in ["miri", "sanitize", ELSEWHERE] {
        let text = fs::read_to_string(root.join("scripts").join(name)).expect("UTF-8");
        let words: Vec<&str> = text.split_whitespace().collect();
        let after = |option: &'static str| {
            let pairs = words.windows(2).filter(move |pair| pair[0] == option);
            pairs.map(|pair| pair[1].trim_matches('"'))
        };
        let unknown = after("-p").filter(|it| !packages.iter().any(|known| known.name == **it));
        // The rest is the name of a variable.
        let unknown = unknown.filter(|it| !it.contains('$'));
        wrong.extend(unknown.map(|it| format!("scripts/{name}: no package {it}")));
        let programs: Vec<String> = after("-p")
            .map(|package| package.replace('-', "_"))
            .chain(after("--test").map(str::to_owned))
            .collect();
        let lines = text.lines().map(str::trim);
        let run = lines.filter_map(|line| line.strip_prefix("/tests/"));
        let run = run.map(|rest| rest.split(' ').next().unwrap_or_default());
        let missing = run.filter(|it| !programs.iter().any(|program| program == it));
        wrong.extend(missing.map(|it| format!("scripts/{name}: no program {it}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
