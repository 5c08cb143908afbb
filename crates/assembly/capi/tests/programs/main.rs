//! Tests of C and C++ programs that use `libtimeloom` with a daemon: the examples, unchanged, and a
//! program that makes every mistake.

mod messages;

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::{Daemon, serve};

/// Returns the path of `libtimeloom`, which has been built with the tests.
fn library() -> PathBuf {
    let library = timeloom_test_support::built("libtimeloom.so");
    library.parent().expect("it lies in a folder").to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Compiles a program, links it to the shared library, and returns its path.
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

/// Starts a synchronised daemon, which keeps the timeline `cell` in `directory`.
fn timeline_of(directory: &Path) -> Daemon {
    let mut config: DaemonConfig = toml::from_str(
        "[[timeline]]\nname = \"cell\"\ntai_offset_s = 37\n\
         poll = { shortest = \"20 ms\", longest = \"100 ms\" }\n\
         source = [{ type = \"system-clock\", vouched_error = \"0 ns\" }]\n",
    )
    .unwrap();
    config.directory = Some(directory.to_owned());
    let daemon = serve(&config).unwrap();
    let timeline = timeloom_timeline::Timeline::open_page(&directory.join("cell.page")).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while timeline.read().unwrap().interval().is_none() {
        assert!(std::time::Instant::now() < deadline, "never synchronised");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    daemon
}

/// Runs a program together with such a daemon, and returns its output.
fn run(directory: &Path, program: &Path, arguments: &[&str]) -> Output {
    let daemon = timeline_of(directory);
    let output = Command::new(program)
        .args(arguments)
        .env("TIMELOOM_TIMELINES", directory)
        .env("LD_LIBRARY_PATH", library())
        .output()
        .unwrap();
    drop(daemon);
    output
}

/// Runs a program in a session, together with a daemon that keeps the timeline `cell` in
/// `directory`.
fn run_in_session(directory: &Path, program: &Path, arguments: &str) -> Output {
    let script = format!(
        "$T timeline serve cell --tai-offset-s 37 --source 'system-clock,vouched_error=0 ns' &\n\
         until $T timeline read cell 2>/dev/null >&2; do kill -0 $! || exit 9; sleep 0.02; done\n\
         {} {arguments}",
        program.display()
    );
    let timeloom = timeloom_test_support::built("timeloom");
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

/// Returns the output of a program. Fails if the program did not succeed.
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
    // In a session that skips, waits end at once, independently of the machine's load. The daemon
    // is killed, so it cannot notify the program.
    let script = format!(
        "$T timeline serve cell --tai-offset-s 37 \
         --source 'system-clock,vouched_error=0 ns' & daemon=$!\n\
         until $T timeline read cell 2>/dev/null >&2; do sleep 0.02; done\n\
         {} cell 8 > $OUT &\n\
         sleep 2; kill -9 $daemon; wait $!",
        program.display()
    );
    let (timeloom, out) = (
        timeloom_test_support::built("timeloom"),
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

/// The example holds the session of an agent until its problem is solved. If the example is killed,
/// its hold must be released.
#[test]
fn a_c_program_holds_a_testbed_until_it_has_solved_or_dies() {
    timeloom_test_support::need_root();
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("examples/hold/solve.c");
    let program = compile("cc", &["-std=c11"], &source, directory.path());
    let testbed = Testbed::start(directory.path());
    let mut solver = testbed.solver(&program);
    let at = standing_at(&mut solver);
    std::thread::sleep(Duration::from_millis(50));
    let status = testbed.status();
    assert_eq!(status["virtual_ns"].as_i64(), Some(at), "{status}");
    assert_eq!(status["paused"].as_bool(), Some(true), "{status}");

    // A second solver holds the same pause, which must not end with the first solver.
    let mut second = testbed.solver(&program);
    assert_eq!(standing_at(&mut second), at);
    let mut problem = solver.stdin.take().unwrap();
    problem.write_all(b"1 2 3.5").unwrap();
    drop(problem);
    let mut rest = String::new();
    solver
        .stdout
        .as_mut()
        .unwrap()
        .read_to_string(&mut rest)
        .unwrap();
    assert_eq!(rest, "solved: 6.5\n");
    assert!(solver.wait().unwrap().success());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(testbed.status()["virtual_ns"].as_i64(), Some(at));
    second.kill().unwrap();
    second.wait().unwrap();
    testbed.eventually("time goes on", |now| now > at);
}

/// If a hold fails, the program must get an error number and a message.
#[test]
fn a_c_program_receives_the_reason_for_a_refused_hold() {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("examples/hold/solve.c");
    let program = compile("cc", &["-std=c11"], &source, directory.path());
    let solve = |name: &str| {
        let ended = Command::new(&program)
            .arg(name)
            .env("LD_LIBRARY_PATH", library())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), said)
    };
    let name = format!("capi-plain-{}", std::process::id());
    let (code, said) = solve(&name);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains(&format!("there is no session `{name}`")),
        "{said}"
    );
    // A session without a pause bus cannot be held by several programs.
    let timeloom = timeloom_test_support::built("timeloom");
    let mut plain = Command::new(&timeloom)
        .args(["exec", "--quiet", "--name", &name, "--", "sh", "-c"])
        .arg("echo here; read line")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(plain.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let (code, said) = solve(&name);
    drop(plain.stdin.take());
    plain.wait().unwrap();
    assert_eq!((code, &*line), (Some(4), "here\n"), "{said}");
    assert!(said.contains("pause bus"), "{said}");
}

/// Agent that is alone on its pause bus, with a program that sleeps. Both are ended on drop.
struct Testbed {
    agent: Child,
    name: String,
}

impl Testbed {
    fn start(directory: &Path) -> Self {
        let name = format!("capi-hold-{}", std::process::id());
        let key = directory.join("key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let agent = Command::new(timeloom_test_support::built("timeloom"))
            .args(["agent", "--timeline", "machine", "--listen", "127.0.0.1:0"])
            .args(["--host", &name, "--key-file"])
            .arg(key)
            .args(["--", "sleep", "86400"])
            .spawn()
            .unwrap();
        let testbed = Self { agent, name };
        testbed.eventually("time begins", |now| now > 0);
        testbed
    }

    fn status(&self) -> serde_json::Value {
        let asked = Command::new(timeloom_test_support::built("timeloom"))
            .args(["query", "--json", "--name", &self.name])
            .output()
            .unwrap();
        // The agent has not answered yet.
        serde_json::from_slice(&asked.stdout).unwrap_or_default()
    }

    fn eventually(&self, what: &str, over: impl Fn(i64) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.status()["virtual_ns"].as_i64().is_some_and(&over) {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn solver(&self, program: &Path) -> Child {
        Command::new(program)
            .arg(&self.name)
            .env("LD_LIBRARY_PATH", library())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

/// Reads the instant of the pause from a solver's output. It reads byte by byte, because the rest
/// of the output is read later.
fn standing_at(solver: &mut Child) -> i64 {
    let out = solver.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte != [b'\n'] {
        line.push(byte[0]);
    }
    let line = String::from_utf8(line).unwrap();
    let at = line
        .strip_prefix("stands at ")
        .and_then(|rest| rest.strip_suffix(" ns"));
    at.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap()
}
