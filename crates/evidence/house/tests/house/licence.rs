//! Everything here may be used under one licence or the other, and says so.

use timeloom_house::Workspace;

#[test]
fn every_manifest_names_the_licences() {
    let workspace = Workspace::read();
    let packages = workspace.packages.iter();
    let without: Vec<_> = packages
        .filter(|package| package.license.as_deref() != Some("MIT OR Apache-2.0"))
        .map(|package| format!("{}: {:?}", package.name, package.license))
        .collect();
    assert!(
        without.is_empty(),
        "not `license.workspace = true`: {without:#?}"
    );
}
