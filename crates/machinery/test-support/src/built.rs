//! Programs and libraries of this workspace that tests run or link.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Command that builds everything that tests need. `make test` runs it first.
pub const BUILD: &str = "cargo build --workspace --all-targets";

/// Returns the path `target/PROFILE/FILE`, where PROFILE is the profile of the running test.
///
/// # Panics
/// Panics if the file was not built, or is older than one of its sources: a test of an outdated
/// program would prove nothing.
#[must_use]
pub fn built(file: &str) -> PathBuf {
    // The path of the test program is …/target/PROFILE/deps/TEST-HASH.
    let own = std::env::current_exe().expect("a test knows its own path");
    let profile = own.ancestors().nth(2).expect("tests lie two folders deep");
    let output = profile.join(file);
    let written = changed(&output)
        .unwrap_or_else(|| panic!("{} is missing: `{BUILD}` makes it", output.display()));
    if let Some(source) = sources(&output)
        .into_iter()
        // Only files are compared: the time of a directory changes when an interpreter stores a
        // file in it.
        .find(|source| source.is_file() && changed(source).is_some_and(|at| at > written))
    {
        panic!(
            "{} is older than {}: `{BUILD}` makes it anew",
            output.display(),
            source.display()
        );
    }
    output
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Parses the dependency file that cargo writes beside `output`.
///
/// Its format is `OUTPUT: SOURCE SOURCE …`, with a backslash before each space within a name.
fn sources(output: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(output.with_extension("d")).unwrap_or_default();
    let list = text.split_once(": ").map_or("", |(_, list)| list);
    let whole = list.replace("\\ ", "\0");
    whole
        .split_ascii_whitespace()
        .map(|name| name.replace('\0', " ").into())
        .collect()
}
