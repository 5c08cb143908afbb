//! Programs of the machine that tests run.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

/// Where `program` lies: on the PATH, or where Debian puts what is for root.
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

/// Where a program is that the test cannot do without.
///
/// # Panics
/// When it is not there, with the Debian package that has it.
#[track_caller]
pub fn need(program: &str, package: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("`{program}` is missing: `apt-get install {package}`, or `make test`, which does it")
    })
}

/// Whether we are root.
#[must_use]
pub fn is_root() -> bool {
    // The owner of a process's folder is the user that it runs as.
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// For a test that makes namespaces or becomes another user.
///
/// # Panics
/// When we are not root. Such tests are excluded then; see `scripts/exclusions`.
#[track_caller]
pub fn need_root() {
    assert!(
        is_root(),
        "this test needs root; `scripts/exclusions` names those that do"
    );
}
