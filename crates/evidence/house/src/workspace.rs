//! What `cargo metadata` says about the packages of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Layer;

/// The packages of the workspace.
#[derive(Debug)]
pub struct Workspace {
    /// Its folder.
    pub folder: PathBuf,
    /// Its packages, by name.
    pub packages: Vec<Package>,
}

/// One package.
#[derive(Debug)]
pub struct Package {
    /// As in its manifest.
    pub name: String,
    /// Where its manifest lies.
    pub folder: PathBuf,
    /// The layer that the folder names. `None` outside the layers.
    pub layer: Option<Layer>,
    /// What it needs of the workspace; nothing from elsewhere.
    pub dependencies: Vec<Dependency>,
    /// Files that the compiler starts from.
    pub roots: Vec<Root>,
}

/// A need of one package for another one of the workspace.
#[derive(Debug)]
pub struct Dependency {
    /// Who is needed.
    pub name: String,
    /// For what.
    pub kind: Kind,
}

/// For what a package is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the library or the program, or to build them.
    Product,
    /// By tests, benches and examples only (`dev-dependencies`).
    Tests,
}

/// A file that the compiler starts from.
#[derive(Debug)]
pub struct Root {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is a library or a program, or a test, bench or example.
    pub kind: Kind,
    /// Whether `cargo test` runs the tests in it.
    pub runs_tests: bool,
    /// Whether it runs the examples in its documentation. `None` where it is no library.
    pub runs_examples: Option<bool>,
}

impl Workspace {
    /// Asks cargo about the workspace that this crate is of.
    ///
    /// # Panics
    /// When cargo does not answer: the tests rest on that.
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

    /// The package of this name.
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
