//! Code shared by the tests: it builds programs, runs them natively and in a session, and compares
//! their output.

mod build;
pub(crate) mod command_line;
mod differential;
pub(crate) mod languages;
mod lines;
mod world;

pub(crate) use build::{
    built, c_program, c_program_static, c_program_unwinding, must_run, ready, source,
};
pub(crate) use differential::{
    ATTEMPTS, Difference, Differential, PAUSE, differences, may_be_the_machines, natively,
};
pub(crate) use lines::{Line, Lines};
pub(crate) use timeloom_test_support::PATIENCE;
pub(crate) use world::{Gate, Program, World, pipe};

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns a name that no other test, and no other run of the tests, uses.
pub(crate) fn unique(theme: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "test-{}-{}-{theme}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Directory that is removed with its contents when this value is dropped. All users may enter it,
/// since some programs run as another user.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(theme: &str) -> Self {
        let scratch = Self(std::env::temp_dir().join(format!("timeloom-{}", unique(theme))));
        scratch.directory("");
        scratch
    }

    pub(crate) fn directory(&self, name: &str) {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("a new directory");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))
            .expect("our own directory");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Copies a program into the directory, so that all users may execute it. Returns the path.
    pub(crate) fn copy(&self, program: &Path) -> PathBuf {
        let copy = self.path(
            program
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a program's name"),
        );
        // Another process does the copying. Otherwise a descriptor that is open for writing,
        // inherited for a moment by a process that another thread starts, would make the file
        // "busy".
        must_run(std::process::Command::new("cp").arg(program).arg(&copy));
        copy
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the test `name` again in its own process. Returns true in the process that has done this.
/// The test begins with `if alone(…) { return; }`.
///
/// Time skips only while every thread of the supervisor's process sleeps. In a process with several
/// tests, this would include the threads of all other tests.
pub(crate) fn alone(name: &str) -> bool {
    again(name, |_| ())
}

/// Runs the test `name` again like [`alone`], in its own PID namespace.
pub(crate) fn alone_among_processes(name: &str) -> bool {
    again(name, |own| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        command.arg(own.get_program());
        *own = command;
    })
}

fn again(name: &str, prepare: impl FnOnce(&mut std::process::Command)) -> bool {
    const MARK: &str = "TIMELOOM_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return false;
    }
    let own = std::env::current_exe().expect("our own path");
    let mut command = std::process::Command::new(own);
    prepare(&mut command);
    let output = command
        .args(["--exact", name, "--nocapture"])
        .env(MARK, "1")
        .output()
        .expect("running this program again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{name}: {said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
