//! Functions that run the real program and check its output.

pub(crate) mod machines;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Exit code and output of the program.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Returns the output, which must have one JSON object on each line.
    pub(crate) fn objects(&self) -> Vec<serde_json::Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    }
}

/// Runs `timeloom` with these arguments, at the root of the source tree.
pub(crate) fn timeloom(arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("the binary runs");
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Returns true if a run reached its end and all its checks hold. The exit code for a machine that
/// is too busy for a simulated network also passes, since no test depends on speed.
pub(crate) fn passed(status: ExitStatus) -> bool {
    matches!(status.code(), Some(0 | 4))
}

/// Returns the root of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Directory of one test, which is removed at the end of the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("timeloom-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a writable temporary directory");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file that only its owner may read, as is required of key files.
    pub(crate) fn write_key(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a key file");
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, own).expect("it is ours");
    }

    /// Returns the path of `name` in the directory, as an argument.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the path of a run directory.
pub(crate) fn place(run: &timeloom_results::RunDirectory) -> std::path::PathBuf {
    run.shown().to_string().into()
}
