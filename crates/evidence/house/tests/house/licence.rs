//! Checks that every manifest states a licence, and that the texts of the licences exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds the manifests of this workspace and of the separate workspaces below `folder` to `into`.
fn manifests(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            manifests(&path, into);
        } else if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            into.push(path);
        }
    }
}

#[test]
fn every_manifest_names_the_licence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut found = vec![root.join("Cargo.toml"), root.join("fuzz/Cargo.toml")];
    manifests(&root.join("crates"), &mut found);
    let without: Vec<_> = found
        .into_iter()
        .filter(|path| {
            let text = fs::read_to_string(path).expect("UTF-8");
            !text.contains("\nlicense = \"MIT OR Apache-2.0\"\n")
                && !text.contains("\nlicense.workspace = true\n")
        })
        .collect();
    assert!(without.is_empty(), "no licence in {without:#?}");
    for text in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(root.join(text).exists(), "{text} is missing");
    }
}
