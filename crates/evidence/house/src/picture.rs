//! Dependencies between the crates, as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::{Kind, Layer, Workspace};

/// Returns one line per package, with the highest layer first. The line contains the package's
/// build dependencies, except those that another of them has too. The common prefix of names is
/// omitted.
pub fn picture(workspace: &Workspace) -> String {
    let mut picture = String::new();
    for layer in Layer::ALL.into_iter().rev() {
        let _ = writeln!(picture, "{}", layer.folder());
        let packages = workspace.packages.iter();
        for package in packages.filter(|package| package.layer == Some(layer)) {
            let all = needed(workspace, &package.name);
            let through: BTreeSet<_> = all.iter().flat_map(|n| reachable(workspace, n)).collect();
            let own: Vec<_> = all.difference(&through).map(|name| short(name)).collect();
            let line = format!("  {:<16} {}", short(&package.name), own.join(" "));
            let _ = writeln!(picture, "{}", line.trim_end());
        }
    }
    picture
}

fn needed<'a>(workspace: &'a Workspace, name: &str) -> BTreeSet<&'a str> {
    let package = workspace.package(name).expect("a package of the workspace");
    let product = package.dependencies.iter();
    let product = product.filter(|needed| needed.kind == Kind::Product);
    product.map(|needed| needed.name.as_str()).collect()
}

fn reachable<'a>(workspace: &'a Workspace, name: &str) -> BTreeSet<&'a str> {
    let mut found = needed(workspace, name);
    for next in found.clone() {
        found.extend(reachable(workspace, next));
    }
    found
}

fn short(name: &str) -> &str {
    name.strip_prefix("timeloom-").unwrap_or(name)
}
