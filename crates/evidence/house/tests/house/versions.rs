//! Checks that all packages of the tree have one version.

use std::fs;
use std::path::Path;

/// Manifests and sources that state a version of their own. The members of the workspace inherit
/// theirs.
const STATED: [&str; 7] = [
    "Cargo.toml",
    "crates/evidence/bench/peers/Cargo.toml",
    "crates/machinery/emulation/mpi/Cargo.toml",
    "fuzz/Cargo.toml",
    "pyproject.toml",
    "python/pyproject.toml",
    "python/timeloom/__init__.py",
];

#[test]
fn every_package_has_the_version_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for name in STATED {
        let text = fs::read_to_string(root.join(name)).expect("UTF-8");
        let version = text
            .lines()
            .find_map(|line| {
                line.strip_prefix("version = ")
                    .or_else(|| line.strip_prefix("__version__ = "))
            })
            .unwrap_or_else(|| panic!("{name} states no version"));
        assert_eq!(
            version.trim_matches('"'),
            env!("CARGO_PKG_VERSION"),
            "{name}"
        );
    }
}
