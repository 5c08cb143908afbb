//! `timeloom bench` and `timeloom clock` must execute the programs of those names in the directory
//! of `timeloom`. A copy of `timeloom` is placed beside programs that take their place, so that
//! nothing is built.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Directory that contains a copy of `timeloom`.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        // The directory is on the file system of the build, where a hard link costs nothing.
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory of our own");
        let (binary, here) = (env!("CARGO_BIN_EXE_timeloom"), directory.join("timeloom"));
        std::fs::hard_link(binary, here).expect("a second name for the binary");
        Self(directory)
    }

    /// Adds a program that prints its arguments, and exits with code 7.
    fn with(self, program: &str) -> Self {
        let text = "#!/bin/sh\necho \"$(basename \"$0\") $TIMELOOM_TEST: $*\"\nexit 7\n";
        let path = self.0.join(program);
        std::fs::write(&path, text).expect("a script");
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("ours");
        self
    }

    fn timeloom(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(self.0.join("timeloom"))
            .args(arguments)
            .env("TIMELOOM_TEST", "kept")
            .env("PATH", "/usr/bin:/bin")
            .output()
            .expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (status.code(), text(stdout), text(stderr))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_sibling_gets_every_word_and_its_exit_code_is_ours() {
    let here = Installed::new("siblings").with("timeloom-bench");
    let (code, out, _) = here.timeloom(&["bench", "ptp", "--quick", "--json"]);
    assert_eq!(code, Some(7));
    assert_eq!(out, "timeloom-bench kept: ptp --quick --json\n");
    let (_, out, _) = here.timeloom(&["bench", "--help"]);
    assert_eq!(out, "timeloom-bench kept: --help\n");
    let (_, out, _) = here.timeloom(&["help", "bench"]);
    assert_eq!(out, "timeloom-bench kept: --help\n");
}

#[test]
fn a_missing_sibling_is_named_with_the_command_that_builds_it() {
    let here = Installed::new("no-siblings").with("timeloom-bench");
    let (code, out, err) = here.timeloom(&["clock", "dvfs"]);
    assert_eq!((code, out.as_str()), (Some(3), ""));
    assert!(err.contains("timeloom-lab"), "{err}");
    assert!(
        err.contains("cargo build --release --locked -p timeloom-bench"),
        "{err}"
    );
}

#[test]
fn the_list_of_commands_has_both() {
    let here = Installed::new("listed");
    let (code, out, _) = here.timeloom(&["--help"]);
    assert_eq!(code, Some(0));
    for (name, about) in [
        ("bench", "Measure this machine"),
        ("clock", "Repeat the RVEC paper"),
    ] {
        let mut rows = out
            .lines()
            .filter_map(|line| line.trim().strip_prefix(name));
        assert!(rows.any(|row| row.trim().starts_with(about)), "{out}");
    }
}
