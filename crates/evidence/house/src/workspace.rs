//! Packages of the workspace, as reported by `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Layer;

/// All packages of the workspace.
#[derive(Debug)]
pub struct Workspace {
    /// Root folder of the workspace.
    pub folder: PathBuf,
    /// Packages, ordered by name.
    pub packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Name of the package in its manifest.
    pub name: String,
    /// Folder that contains the manifest.
    pub folder: PathBuf,
    /// Layer to which the folder belongs; `None` for folders outside of the layers.
    pub layer: Option<Layer>,
    /// Dependencies on other packages of the workspace.
    pub dependencies: Vec<Dependency>,
    /// Files that are compiled as crate roots.
    pub roots: Vec<Root>,
}

/// A dependency on another package of the workspace.
#[derive(Debug)]
pub struct Dependency {
    /// Name of the required package.
    pub name: String,
    /// Purpose of the dependency.
    pub kind: Kind,
}

/// Purpose of a dependency or of a compiled file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the library or the program, or for building them.
    Product,
    /// Only for tests, benches and examples (`dev-dependencies`).
    Tests,
}

/// File that is compiled as a crate root.
#[derive(Debug)]
pub struct Root {
    /// Path of the file.
    pub path: PathBuf,
    /// Purpose: a library or program, or a test, bench or example.
    pub kind: Kind,
    /// True if `cargo test` runs the unit tests in the file.
    pub runs_tests: bool,
    /// True if `cargo test` runs the examples in the documentation; `None` if it is not a library.
    pub runs_examples: Option<bool>,
}

impl Workspace {
    /// Reads the metadata of this crate's workspace from cargo.
    ///
    /// # Panics
    /// Panics if cargo fails, because the tests cannot work without the metadata.
    pub fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--locked", "--offline", "--no-deps"])
            .args(["--format-version", "1", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .output()
            .expect("cargo runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata: {said}");
        let said: Value = serde_json::from_slice(&output.stdout).expect("cargo speaks JSON");
        Self::parse(&said)
    }

    fn parse(said: &Value) -> Self {
        let folder = PathBuf::from(text(&said["workspace_root"]));
        let mut packages: Vec<_> = list(&said["packages"])
            .map(|package| Package::parse(package, &folder))
            .collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        let ours: Vec<_> = packages.iter().map(|p| p.name.clone()).collect();
        for package in &mut packages {
            package.dependencies.retain(|d| ours.contains(&d.name));
        }
        Self { folder, packages }
    }

    /// Returns the package with this name; `None` if there is none.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

impl Package {
    fn parse(package: &Value, workspace: &Path) -> Self {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().expect("a file has a folder").to_owned();
        let inside = folder.strip_prefix(workspace).ok();
        Self {
            name: text(&package["name"]).to_owned(),
            layer: inside.and_then(Layer::of),
            folder,
            dependencies: list(&package["dependencies"])
                .map(|needed| Dependency {
                    name: text(&needed["name"]).to_owned(),
                    kind: match needed["kind"].as_str() {
                        Some("dev") => Kind::Tests,
                        _ => Kind::Product,
                    },
                })
                .collect(),
            roots: list(&package["targets"])
                .map(|target| Root {
                    path: PathBuf::from(text(&target["src_path"])),
                    kind: match text(&target["kind"][0]) {
                        "test" | "bench" | "example" => Kind::Tests,
                        _ => Kind::Product,
                    },
                    runs_tests: target["test"] == true,
                    runs_examples: list(&target["kind"])
                        .any(|kind| text(kind).ends_with("lib"))
                        .then(|| target["doctest"] == true),
                })
                .collect(),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("cargo metadata has a text here")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_array()
        .expect("cargo metadata has a list here")
        .iter()
}
