//! C and C++ programs against `libtimeloom` and a daemon: the examples as they
//! stand, and one that does everything wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use timeloom_timeline::config::DaemonConfig;
use timeloom_timeline::serve;

/// Where `libtimeloom` lies, which the build made with the tests.
fn library() -> PathBuf {
    let library = timeloom_testing::built("libtimeloom.so");
    library.parent().expect("it lies in a folder").to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Compiles a program against the shared library.
fn compile(compiler: &str, options: &[&str], source: &Path, into: &Path) -> PathBuf {
    let program = into.join(source.file_stem().unwrap());
    let output = Command::new(compiler)
        .args(options)
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root().join("crates/assembly/capi/include"))
        .arg(source)
        .arg("-L")
        .arg(library())
        .args(["-ltimeloom", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", source.display());
    program
}

/// Runs a program beside a daemon that keeps the timeline `cell` and is in step.
fn run(directory: &Path, program: &Path, arguments: &[&str]) -> Output {
    let mut config: DaemonConfig = toml::from_str(
        "[[timeline]]\nname = \"cell\"\ntai_offset_s = 37\n\
         poll = { shortest = \"20 ms\", longest = \"100 ms\" }\n\
         source = [{ type = \"system-clock\", vouched_error = \"0 ns\" }]\n",
    )
    .unwrap();
    config.directory = Some(directory.to_owned());
    let daemon = serve(&config).unwrap();
    let timeline =
        timeloom_timeline_client::Timeline::open_page(&directory.join("cell.page")).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while timeline.read().unwrap().interval().is_none() {
        assert!(std::time::Instant::now() < deadline, "never synchronised");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = Command::new(program)
        .args(arguments)
        .env("TIMELOOM_TIMELINES", directory)
        .env("LD_LIBRARY_PATH", library())
        .output()
        .unwrap();
    drop(daemon);
    output
}

/// Runs a program in a session, beside a daemon that keeps the timeline `cell` there.
fn run_in_session(directory: &Path, program: &Path, arguments: &str) -> Output {
    let script = format!(
        "$T timeline serve cell --tai-offset-s 37 --source 'system-clock,vouched_error=0 ns' &\n\
         until $T timeline read cell 2>/dev/null >&2; do kill -0 $! || exit 9; sleep 0.02; done\n\
         {} {arguments}",
        program.display()
    );
    let timeloom = timeloom_testing::built("timeloom");
    Command::new(&timeloom)
        .args([
            "exec", "--quiet", "--dilate", "3", "--", "sh", "-c", &script,
        ])
        .env("T", &timeloom)
        .env("TIMELOOM_TIMELINES", directory)
        .env("LD_LIBRARY_PATH", library())
        .output()
        .unwrap()
}

/// What a program printed; it must have ended well.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out
}

#[test]
fn the_c_example_commits() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("examples/timeline/c/commit.c");
    let program = compile("cc", &["-std=c11"], &source, directory.path());
    let out = said(&run(directory.path(), &program, &["cell"]));
    assert_eq!(out.matches(", ok, committed\n").count(), 3, "{out}");
    let inside = tempfile::tempdir().unwrap();
    let out = said(&run_in_session(inside.path(), &program, "cell"));
    assert_eq!(out.matches(", ok, committed\n").count(), 3, "{out}");
    assert!(out.ends_with("told at least once\n"), "{out}");
}

#[test]
fn the_c_controller_leaves_when_its_daemon_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("examples/timeline/c/degrade.c");
    let program = compile("cc", &["-std=c11"], &source, directory.path());
    // In a session that skips: what is waited for is over at once, and no busy machine
    // decides. The daemon is killed, so it tells nobody of anything.
    let script = format!(
        "$T timeline serve cell --tai-offset-s 37 \
         --source 'system-clock,vouched_error=0 ns' & daemon=$!\n\
         until $T timeline read cell 2>/dev/null >&2; do sleep 0.02; done\n\
         {} cell 8 > $OUT &\n\
         sleep 2; kill -9 $daemon; wait $!",
        program.display()
    );
    let (timeloom, out) = (
        timeloom_testing::built("timeloom"),
        directory.path().join("out"),
    );
    let output = Command::new(&timeloom)
        .args(["exec", "--quiet", "--skip", "--compute", "none", "--"])
        .args(["sh", "-c", &script])
        .env("T", &timeloom)
        .env("OUT", &out)
        .env("TIMELOOM_TIMELINES", directory.path())
        .env("LD_LIBRARY_PATH", library())
        .output()
        .unwrap();
    said(&output);
    let out = std::fs::read_to_string(out).unwrap();
    let modes: Vec<&str> = out
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        modes,
        ["stopped", "coordinated", "hold", "stopped"],
        "{out}"
    );
}

#[test]
fn the_cpp_example_keeps_its_period() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("examples/timeline/cpp/control.cpp");
    let program = compile("c++", &["-std=c++17"], &source, directory.path());
    let out = said(&run(directory.path(), &program, &["cell"]));
    assert!(out.matches(": phase 0 ns").count() >= 5, "{out}");
    assert!(out.ends_with("the timer fired between\n"), "{out}");
}

#[test]
fn a_careless_caller_is_refused_by_every_function() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("crates/assembly/capi/tests/border.c");
    let program = compile("cc", &["-std=c11"], &source, directory.path());
    let page = directory.path().join("cell.page");
    let out = said(&run(
        directory.path(),
        &program,
        &["cell", page.to_str().unwrap()],
    ));
    assert_eq!(out, "all refused\n");
}
