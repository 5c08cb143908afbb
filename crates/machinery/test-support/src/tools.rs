//! Programs installed on the machine that tests run.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

/// Returns the path of `program`, found on the PATH or in `/usr/sbin` and `/sbin`; `None` if it is
/// not installed.
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

/// Returns the path of `program`, which the test needs.
///
/// # Panics
/// Panics if the program is not installed; the message names `package`, its Debian package.
#[track_caller]
pub fn need(program: &str, package: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("`{program}` is missing: `apt-get install {package}`, or `make test`, which does it")
    })
}

/// Returns true if the effective user of this process is root.
#[must_use]
pub fn is_root() -> bool {
    // The kernel sets the owner of `/proc/PID` to the effective user of the process.
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Checks that the test runs as root, and may therefore create namespaces or change its user.
///
/// # Panics
/// Panics if this process does not run as root. For runs without root, `scripts/exclusions`
/// excludes the tests that call this function.
#[track_caller]
pub fn need_root() {
    assert!(
        is_root(),
        "this test needs root; `scripts/exclusions` names those that do"
    );
}
