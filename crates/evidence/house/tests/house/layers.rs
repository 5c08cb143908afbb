//! Checks that each package is in the folder of a layer, and that no dependency points to a higher
//! layer.
//!
//! A package may depend on packages of its own layer and of lower ones. Its tests may also use
//! higher layers, to test the package together with code that uses it, but not the layer Evidence:
//! no part of the product may depend on code that only demonstrates correctness.

use timeloom_house::{Kind, Layer, Workspace};

#[test]
fn every_package_lies_in_a_layer() {
    let workspace = Workspace::read();
    let packages = workspace.packages.iter();
    let outside: Vec<_> = packages
        .filter(|package| package.layer.is_none())
        .map(|package| format!("{} in {}", package.name, package.folder.display()))
        .collect();
    assert!(outside.is_empty(), "not in crates/LAYER/NAME: {outside:#?}");
}

#[test]
fn no_arrow_goes_up() {
    let workspace = Workspace::read();
    let mut up = Vec::new();
    for package in &workspace.packages {
        for needed in &package.dependencies {
            let from = package.layer;
            let to = workspace.package(&needed.name).and_then(|n| n.layer);
            let may = match needed.kind {
                Kind::Product => to <= from,
                Kind::Tests => to != Some(Layer::Evidence) || from == Some(Layer::Evidence),
            };
            if !may {
                up.push(format!("{} -> {}", package.name, needed.name));
            }
        }
    }
    assert!(
        up.is_empty(),
        "dependencies that point to a higher layer: {up:#?}"
    );
}
