//! Programs of the machine that tests run.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

/// Returns the path of `program`: on the PATH, or in Debian's directories for root's programs.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|file| {
            file.metadata()
                .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        })
}

/// Returns the path of a program that the test needs.
///
/// # Panics
/// Panics if it is missing, and names the Debian package that has it.
#[track_caller]
pub fn need(program: &str, package: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("`{program}` is missing: `apt-get install {package}`, or `make test`, which does it")
    })
}

/// Returns true if this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    // The owner of a process's directory is the user that it runs as.
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Checks that the test may make namespaces or become another user.
///
/// # Panics
/// Panics if this process does not run as root. Such tests are excluded then; see
/// `scripts/exclusions`.
#[track_caller]
pub fn need_root() {
    assert!(
        is_root(),
        "this test needs root; `scripts/exclusions` names those that do"
    );
}
