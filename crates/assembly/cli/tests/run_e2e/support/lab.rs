//! Start of `timeloom run`, requests to it, and the wait for its end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use timeloom_results::{Manifest, RunDirectory};
use timeloom_test_support::Traces;

use super::Scenario;

/// Directory, session name and mark of one test. All parts of the test's run have the mark.
pub(crate) struct Lab {
    directory: tempfile::TempDir,
    name: String,
    traces: Mutex<Traces>,
}

/// Run of `timeloom run` in progress, which is ended when the value is dropped.
pub(crate) struct Running<'a> {
    lab: &'a Lab,
    child: Child,
    began: Instant,
}

/// Result of a run of `timeloom run`.
pub(crate) struct Finished {
    /// Exit code, or 128 plus the number of the signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    path: PathBuf,
}

impl Lab {
    /// Creates a laboratory with a scenario and the programs of the tests.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self::with_text(&scenario.to_toml())
    }

    /// Creates a laboratory with a scenario as text and the programs of the tests.
    pub(crate) fn with_text(scenario: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        for (file, text) in [
            ("eat.py", include_str!("../programs/eat.py")),
            ("mortal.py", include_str!("../programs/mortal.py")),
            ("plant.py", include_str!("../programs/plant.py")),
            ("poll.py", include_str!("../programs/poll.py")),
            ("ticks.py", include_str!("../programs/ticks.py")),
            ("uptime.py", include_str!("../programs/uptime.py")),
            ("who.py", include_str!("../programs/who.py")),
            ("scenario.toml", scenario),
        ] {
            fs::write(directory.path().join(file), text).expect("it can be written");
        }
        let name = format!("e2e-{}-{number}", std::process::id());
        let traces = Traces::of(&name).at(directory.path());
        Self {
            directory,
            name,
            traces: Mutex::new(traces),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the name of the session, which is also the mark.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the run directory, which may not exist yet.
    pub(crate) fn run_path(&self) -> PathBuf {
        self.path().join("run")
    }

    /// Starts the scenario of this laboratory.
    pub(crate) fn start(&self, sets: &[&str]) -> Running<'_> {
        self.start_file(&self.path().join("scenario.toml"), sets)
    }

    /// Starts the scenario. The supervisor sees `file` in place of the machine's file `place`.
    pub(crate) fn start_seeing(&self, file: &Path, place: &Path) -> Running<'_> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.arg("mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"");
        command.arg("sh").arg(file).arg(place);
        command.arg(env!("CARGO_BIN_EXE_timeloom"));
        self.begin(command, &self.path().join("scenario.toml"), &[], &[])
    }

    /// Starts the scenario with a supervisor that has inherited the open descriptor 9.
    pub(crate) fn start_with_descriptor_nine(&self, sets: &[&str]) -> Running<'_> {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 9</etc/passwd && exec \"$@\"", "sh"]);
        command.arg(env!("CARGO_BIN_EXE_timeloom"));
        self.begin(command, &self.path().join("scenario.toml"), &[], sets)
    }

    /// Runs the scenario to its end with a supervisor that loads no BPF programs.
    pub(crate) fn run_without_bpf(&self, sets: &[&str]) -> Finished {
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command.env("TIMELOOM_BPF", "off");
        let started = self.begin(command, &self.path().join("scenario.toml"), &[], sets);
        started.wait()
    }

    /// Runs the scenario to its end with this filter of the log.
    pub(crate) fn run_with_log(&self, filter: &str, options: &[&str]) -> Finished {
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command.env("TIMELOOM_LOG", filter);
        let started = self.begin(command, &self.path().join("scenario.toml"), options, &[]);
        started.wait()
    }

    /// Runs the scenario to its end with a supervisor whose controlling terminal and standard
    /// streams are a terminal of the test.
    pub(crate) fn run_on_a_terminal(&self, sets: &[&str]) -> Finished {
        const ON_A_TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
try:
    while part := os.read(terminal, 4096):
        os.write(1, part)
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
        let mut command = Command::new("python3");
        command.args(["-c", ON_A_TERMINAL, env!("CARGO_BIN_EXE_timeloom")]);
        let started = self.begin(command, &self.path().join("scenario.toml"), &[], sets);
        started.wait()
    }

    /// Starts the scenario in the file `scenario`.
    pub(crate) fn start_file(&self, scenario: &Path, sets: &[&str]) -> Running<'_> {
        self.start_as(scenario, &[], sets)
    }

    /// Starts the scenario with further options of `timeloom run`.
    pub(crate) fn start_with(&self, options: &[&str], sets: &[&str]) -> Running<'_> {
        self.start_as(&self.path().join("scenario.toml"), options, sets)
    }

    fn start_as(&self, scenario: &Path, options: &[&str], sets: &[&str]) -> Running<'_> {
        let command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        self.begin(command, scenario, options, sets)
    }

    fn begin(
        &self,
        mut command: Command,
        scenario: &Path,
        options: &[&str],
        sets: &[&str],
    ) -> Running<'_> {
        command.args(["run", "--name", &self.name, "-o"]);
        command.arg(self.run_path()).args(options).arg(scenario);
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        // Sets variables that no program needs.
        command.env("LAB_VARIABLE", "set");
        command.env("LAB_SECRET", "set");
        let file = |name: &str| {
            let path = self.path().join(name);
            fs::File::create(path).expect("a file can be made")
        };
        let child = self
            .traces()
            .mark(&mut command)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("timeloom can be started");
        Running {
            lab: self,
            child,
            began: Instant::now(),
        }
    }

    /// Runs the scenario until it ends.
    pub(crate) fn run(&self, sets: &[&str]) -> Finished {
        self.start(sets).wait()
    }

    /// Declares that the mounts which exist now do not belong to the run.
    pub(crate) fn expect_mounts(&self) {
        self.traces().expect_mounts();
    }

    /// Waits until everything that belonged to the run is gone.
    pub(crate) fn assert_nothing_left(&self) {
        self.traces().assert_nothing_left();
    }

    /// Describes what is left of the run at present.
    pub(crate) fn left(&self) -> Vec<String> {
        self.traces().left()
    }

    /// Returns the process IDs of the run's processes that are alive.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.traces().processes()
    }

    /// Returns the number of network namespaces that the run has used.
    pub(crate) fn networks(&self) -> usize {
        self.traces().networks()
    }

    fn look(&self) {
        self.traces().look();
    }

    fn traces(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().expect("no test thread panicked in it")
    }
}

impl Running<'_> {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a request to the session, such as `query`, `pause` or `resume`.
    pub(crate) fn control(&self, request: &str) -> Result<Value, String> {
        let words: Vec<&str> = request.split(' ').collect();
        let output = timeloom(&[&words[..], &["--name", &self.lab.name, "--json"]].concat());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }

    /// Returns the virtual time since the start of the run, in seconds; `None` if there is no
    /// answer.
    pub(crate) fn virtual_s(&self) -> Option<f64> {
        let status = self.control("query").ok()?;
        Some(status["virtual_ns"].as_f64()? * 1e-9)
    }

    /// Waits until the virtual clock has passed `virtual_s` seconds.
    pub(crate) fn wait_until(&mut self, virtual_s: f64) {
        self.wait_for(&format!("the run does not get to {virtual_s} s"), |run| {
            run.virtual_s() > Some(virtual_s)
        });
    }

    /// Waits until a program has printed a line that contains `text`.
    pub(crate) fn wait_for_line(&mut self, program: &str, text: &str) {
        let log = self.lab.run_path().join(format!("logs/{program}.log"));
        self.wait_for(&format!("{program} does not say {text:?}"), |_| {
            fs::read_to_string(&log).is_ok_and(|log| log.contains(text))
        });
    }

    /// Waits until the run has printed a warning that contains `text`.
    pub(crate) fn wait_for_warning(&mut self, text: &str) {
        let said = self.lab.path().join("stderr");
        self.wait_for(&format!("it does not warn of {text:?}"), |_| {
            fs::read_to_string(&said).is_ok_and(|said| said.contains(text))
        });
    }

    /// Waits until `met` returns true. If the run ends before, fails with the message `failure`.
    pub(crate) fn wait_for(&mut self, failure: &str, mut met: impl FnMut(&Self) -> bool) {
        let in_time = patiently(PATIENCE, || {
            if let Ok(Some(status)) = self.child.try_wait() {
                let text = fs::read_to_string(self.lab.path().join("stderr"));
                panic!("the run ended too early, {status}: {text:?}");
            }
            met(self)
        });
        assert!(in_time, "{failure}");
        self.lab.look();
    }

    /// Ends the run when the test has reached its aim. That takes a time which depends on the
    /// machine, while the planned duration does not.
    pub(crate) fn stop(self) -> Finished {
        self.signal(libc::SIGTERM);
        let run = self.wait();
        let outcome = run.manifest().outcome;
        let interrupted = timeloom_results::Outcome::Interrupted;
        assert_eq!(outcome, interrupted, "{}", run.output());
        run
    }

    /// Sends a signal only to the supervisor of the run.
    pub(crate) fn signal(&self, number: i32) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.pid(), number) };
    }

    /// Waits for the end of the run, and observes its processes until then.
    pub(crate) fn wait(mut self) -> Finished {
        let status = loop {
            self.lab.look();
            let until = Instant::now() + Duration::from_millis(100);
            let mut ended = None;
            while ended.is_none() && Instant::now() < until {
                ended = self.child.try_wait().expect("our own child");
                sleep(Duration::from_millis(5));
            }
            match ended {
                Some(status) => break status,
                None => assert!(self.began.elapsed() < PATIENCE, "the run does not end"),
            }
        };
        let read = |name: &str| {
            let bytes = fs::read(self.lab.path().join(name)).expect("its output was kept");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Finished {
            code: status.code().unwrap_or(128 + status.signal().unwrap_or(0)),
            stdout: read("stdout"),
            stderr: read("stderr"),
            path: self.lab.run_path(),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // The test has failed. The run is asked for an orderly end; otherwise its reaper cleans up.
        self.signal(libc::SIGTERM);
        if !patiently(Duration::from_secs(5), || {
            !matches!(self.child.try_wait(), Ok(None))
        }) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Finished {
    /// Fails with all output unless the run reached its end and its checks hold. The exit code for
    /// a machine that is too busy for a simulated network is accepted as well.
    pub(crate) fn succeeded(self) -> Self {
        assert!(matches!(self.code, 0 | 4), "{}", self.output());
        self
    }

    /// Fails unless the run failed, named the culprit in all places, and kept its results.
    pub(crate) fn blames(self, words: &[&str]) -> Self {
        assert_eq!(self.code, 1, "{}", self.output());
        let manifest = self.manifest();
        assert_eq!(manifest.outcome, timeloom_results::Outcome::Failed);
        let log = manifest.failure.map(|failure| failure.log.join("\n"));
        let culprit = manifest.culprit.unwrap_or_default() + &log.unwrap_or_default();
        for word in words {
            assert!(
                self.stdout.contains(word),
                "no {word:?} in {}",
                self.output()
            );
            assert!(
                culprit.contains(word),
                "no {word:?} in the manifest: {culprit}"
            );
        }
        assert!(self.directory().is_finished(), "the tables are not Parquet");
        self
    }

    pub(crate) fn output(&self) -> String {
        format!("exit {}\n{}\n{}", self.code, self.stdout, self.stderr)
    }

    /// Returns the path of the run directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> RunDirectory {
        RunDirectory::open(&self.path).unwrap_or_else(|error| panic!("{error}\n{}", self.output()))
    }

    pub(crate) fn manifest(&self) -> Manifest {
        self.directory().manifest().expect("there is a manifest")
    }
}

/// Runs a command of `timeloom`, and returns its output.
pub(crate) fn timeloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("timeloom can be started")
}

/// Polls until `ask` returns true, for at most `patience`. Returns false if it does not.
pub(crate) fn patiently(patience: Duration, mut ask: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if ask() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
}

/// Time limit for each run of these tests. It suffices even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
