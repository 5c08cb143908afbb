//! The `timeloom` command line, run as a user runs it, and the leftovers of a session, examined
//! from outside.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use timeloom_test_support::Traces;
pub(crate) use timeloom_test_support::eventually;

use super::{PATIENCE, Scratch, unique};

/// Returns the path of the `timeloom` program that was built with the tests.
pub(crate) fn timeloom() -> PathBuf {
    super::ready("timeloom").unwrap_or_else(|| timeloom_test_support::built("timeloom"))
}

/// User that runs `timeloom`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The user of the tests.
    Same,
    /// A user without any privilege.
    Nobody,
}

/// Command line of one user for one session, with a directory for its files.
pub(crate) struct CommandLine {
    pub(crate) name: String,
    pub(crate) user: User,
    pub(crate) scratch: Scratch,
    program: PathBuf,
    traces: Mutex<Traces>,
}

impl CommandLine {
    pub(crate) fn new(theme: &str, user: User) -> Self {
        let scratch = Scratch::new(theme);
        scratch.directory("runtime");
        // The other user must be able to execute the program.
        let program = scratch.copy(&timeloom());
        let name = unique(theme);
        let traces = Traces::of(&name).at(&scratch.path(""));
        Self {
            name,
            user,
            scratch,
            program,
            traces: Mutex::new(traces),
        }
    }

    /// Returns the command `timeloom ARGUMENTS`.
    pub(crate) fn command(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = match self.user {
            User::Same => Command::new(&self.program),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                command.args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "--inh-caps=-all",
                    "--pdeathsig=KILL",
                ]);
                command.arg(&self.program);
                // This directory will contain the sockets of the user's sessions.
                command
                    .env("XDG_RUNTIME_DIR", self.scratch.path("runtime"))
                    .env("HOME", "/nonexistent");
                command
            }
        };
        self.traces().mark(command.args(arguments));
        command.stdin(Stdio::null());
        command
    }

    /// Sets a soft limit of a process of this user. `resource` is the limit's name as in `prlimit`.
    /// An unprivileged process can raise it again up to the hard limit.
    pub(crate) fn limit(&self, pid: i32, resource: &str, most: u64) {
        let mut command = match self.user {
            User::Same => Command::new("prlimit"),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                command.args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "prlimit",
                ]);
                command
            }
        };
        command.arg(format!("--pid={pid}"));
        command.arg(format!("--{resource}={most}:"));
        let done = command.output().expect("prlimit is a part of util-linux");
        assert!(done.status.success(), "{command:?}: {done:?}");
    }

    /// Starts `timeloom exec --name NAME ARGUMENTS` as leader of a process group. Its output goes
    /// to a file in the directory.
    pub(crate) fn exec(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Running {
        let output = fs::File::create(self.scratch.path("output")).expect("a new file");
        let mut command = self.command(["exec", "--name", &self.name]);
        // SAFETY: the function makes one system call, between fork and exec.
        unsafe { command.pre_exec(die_with_the_test) };
        let child = command
            .args(arguments)
            .stdout(output.try_clone().expect("duplicating a file"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .expect("starting timeloom");
        Running { child, ended: None }
    }

    /// Returns the output of [`Self::exec`] up to now.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(self.scratch.path("output")).unwrap_or_default()
    }

    /// Runs `timeloom REQUEST --name NAME`, which must succeed. Returns its JSON output.
    pub(crate) fn ask(&self, request: &[&str]) -> serde_json::Value {
        let output = self.try_ask(request);
        assert!(
            output.status.success(),
            "timeloom {request:?}: {output:?}\n{}",
            self.output()
        );
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }

    /// Returns the path of the session's control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        let directory = match self.user {
            User::Same => PathBuf::from("/run/timeloom"),
            User::Nobody => self.scratch.path("runtime/timeloom"),
        };
        directory.join(format!("{}.sock", self.name))
    }

    pub(crate) fn try_ask(&self, request: &[&str]) -> Output {
        self.command(request)
            .args(["--json", "--name", &self.name])
            .output()
            .expect("running timeloom")
    }

    /// Waits until the session answers and has a process of this name. Returns the processes.
    pub(crate) fn wait_for_process(&self, name: &str) -> Vec<i32> {
        let begun = Instant::now();
        loop {
            let answer = self.try_ask(&["query"]);
            let status: serde_json::Value =
                serde_json::from_slice(&answer.stdout).unwrap_or_default();
            let processes = status["processes"].as_array().cloned().unwrap_or_default();
            if processes.iter().any(|one| one["name"] == name) {
                self.traces().look();
                return processes
                    .iter()
                    .filter_map(|one| one["pid"].as_i64())
                    .map(|pid| pid as i32)
                    .collect();
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "no process `{name}` in {answer:?}; {}",
                self.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a description of each remaining object of the session.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        self.traces().left()
    }

    /// Returns the living processes of the session.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.traces().processes()
    }

    /// Waits until no object of the session is left. (The reaper promises this within a second on a
    /// machine that is not overloaded, but the load is unknown here.)
    pub(crate) fn assert_nothing_left(&self) {
        self.traces().assert_nothing_left();
    }

    /// Makes the checks of this value include another session of the test.
    pub(crate) fn also_of(&self, name: &str) {
        self.traces().also_of(name);
    }

    fn traces(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().expect("no panic while held")
    }
}

/// Makes the process die with the test: a test that is itself killed drops no values, and would
/// leave its sessions behind.
fn die_with_the_test() -> std::io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Running `timeloom exec`. When dropped, it is killed with its whole process group.
pub(crate) struct Running {
    child: Child,
    ended: Option<std::process::ExitStatus>,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the process is our own child, which was not reaped yet.
        let sent = unsafe { libc::kill(self.pid(), signal) };
        assert_eq!(sent, 0, "signalling timeloom");
    }

    /// Sends a signal to the whole process group, as a terminal does.
    pub(crate) fn signal_group(&self, signal: i32) {
        // SAFETY: the group is that of our own child.
        let sent = unsafe { libc::kill(-self.pid(), signal) };
        assert_eq!(sent, 0, "signalling timeloom's group");
    }

    /// Waits for its end. Returns the exit status in the form that a shell reports.
    pub(crate) fn wait(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        eventually("the end of timeloom exec", || {
            self.ended = self.child.try_wait().expect("our own child");
            self.ended.is_some()
        });
        let status = self.ended.expect("just waited for");
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().expect("no code, so a signal"))
    }

    /// Returns the process identifier of the reaper, which is among its children.
    pub(crate) fn keeper(&self) -> i32 {
        let mut keeper = None;
        eventually("the keeper", || {
            let text = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid()))
                .unwrap_or_default();
            keeper = text
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .find(|&pid| command_of(pid) == "timeloom-keeper");
            keeper.is_some()
        });
        keeper.expect("just found")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns the processes that map a clock page of a session with exactly this name.
pub(crate) fn processes_of(session: &str) -> Vec<i32> {
    let page = format!("timeloom-abi-{session}");
    let own = std::process::id() as i32;
    let is_of = |pid: &i32| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        // In the page's name of another session, the name continues with a letter, digit, `-` or
        // `_`.
        *pid != own
            && maps.match_indices(&page).any(|(at, _)| {
                !maps[at + page.len()..]
                    .starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            })
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_of)
        .collect()
}

pub(crate) fn cgroup_of(session: &str) -> Option<PathBuf> {
    Some(timeloom_guest::cgroup2_mount()?.join(format!("timeloom.{session}")))
}

/// Returns the scheduler state of a process: `T` if stopped by a signal, `S` if asleep, …
pub(crate) fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

pub(crate) fn command_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// Returns the arguments `["--", "sh", "-c", script]`, which make `timeloom exec` run a script.
pub(crate) fn shell(script: &str) -> Vec<OsString> {
    ["--", "sh", "-c", script].map(Into::into).into()
}
