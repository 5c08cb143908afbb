//! Checks that only the crates listed here contain unsafe code. In all others, every library and
//! program has the attribute with which the compiler forbids unsafe code.

use std::fs;
use std::path::{Path, PathBuf};

use timeloom_house::{Kind, Package, Workspace};

/// Crates that contain unsafe code, with its purpose.
const MAY: [(&str, &str); 7] = [
    (
        "timeloom-bench",
        "measures calls of the kernel as programs make them",
    ),
    ("timeloom-capi", "pointers that C hands in"),
    (
        "timeloom-guest",
        "other processes: ptrace, seccomp, their memory",
    ),
    (
        "timeloom-abi",
        "memory shared with guests; the counter's instruction",
    ),
    (
        "timeloom-timeline",
        "pages in shared memory, written and read by many",
    ),
    (
        "timeloom-shim",
        "stands in guests where the kernel's vDSO stood",
    ),
    (
        "timeloom-sys",
        "calls of the kernel that rustix lacks, made safe for all others",
    ),
];

/// Crates that contain unsafe code only in tests, benches or examples, with its purpose.
const MAY_IN_TESTS: [(&str, &str); 3] = [
    ("timeloom", "signals runs"),
    (
        "timeloom-engine",
        "counts allocations with an allocator of its own",
    ),
    (
        "timeloom-net",
        "counts allocations with an allocator of its own",
    ),
];

#[test]
fn unsafe_code_is_only_where_it_is_expected() {
    let mut wrong = Vec::new();
    for package in &Workspace::read().packages {
        let (sources, others): (Vec<_>, Vec<_>) = with_unsafe_code(package)
            .into_iter()
            .partition(|path| is_product(package, path));
        let listed = |list: &[(&str, &str)]| list.iter().any(|(name, _)| *name == package.name);
        if listed(&MAY) {
            if sources.is_empty() {
                wrong.push(format!(
                    "{} has none any more: take it off the list",
                    package.name
                ));
            }
            continue;
        }
        wrong.extend(sources.iter().map(|path| path.display().to_string()));
        if !listed(&MAY_IN_TESTS) {
            wrong.extend(others.iter().map(|path| path.display().to_string()));
        } else if others.is_empty() {
            wrong.push(format!(
                "{} has none any more: take it off the list",
                package.name
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "unsafe code where none is expected: {wrong:#?}"
    );
}

#[test]
fn the_compiler_forbids_it_to_all_others() {
    let mut without = Vec::new();
    for package in &Workspace::read().packages {
        if MAY.iter().any(|(name, _)| *name == package.name) {
            continue;
        }
        let roots = package
            .roots
            .iter()
            .filter(|root| root.kind == Kind::Product);
        without.extend(
            roots
                .map(|root| &root.path)
                .filter(|path| !forbids(path))
                .cloned(),
        );
    }
    assert!(
        without.is_empty(),
        "no #![forbid(unsafe_code)] in {without:#?}"
    );
}

#[test]
fn every_crate_on_the_lists_exists() {
    let workspace = Workspace::read();
    let listed = MAY.iter().chain(&MAY_IN_TESTS);
    let gone: Vec<_> = listed
        .filter(|(name, _)| workspace.package(name).is_none())
        .collect();
    assert!(gone.is_empty(), "no package of the workspace: {gone:?}");
}

fn forbids(root: &Path) -> bool {
    let text = fs::read_to_string(root).expect("cargo names files that exist");
    text.lines().any(|line| line == "#![forbid(unsafe_code)]")
}

/// Returns true if the file is not a test, bench or example.
fn is_product(package: &Package, path: &Path) -> bool {
    let inside = path
        .strip_prefix(&package.folder)
        .expect("a file of the package");
    let folder = inside.iter().next().and_then(|part| part.to_str());
    !matches!(folder, Some("tests" | "benches" | "examples"))
}

fn with_unsafe_code(package: &Package) -> Vec<PathBuf> {
    let mut files = Vec::new();
    rust_files(&package.folder, &mut files);
    files.retain(|path| has_unsafe_code(&fs::read_to_string(path).expect("UTF-8")));
    files
}

/// Adds all sources below `folder` to `into`, except those of nested packages of other workspaces.
fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of a package") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.join("Cargo.toml").exists() {
                rust_files(&path, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The keyword is written in two parts, so that the check does not find it in this file.
const KEYWORD: &str = concat!("un", "safe");

/// Returns true if `source` contains the keyword in a position where it is code, unlike in comments
/// and strings.
fn has_unsafe_code(source: &str) -> bool {
    const AFTER: [&str; 6] = [" {", " fn ", " impl", " extern ", " trait ", "("];
    let code = source.lines().filter_map(|line| line.split("//").next());
    code.flat_map(|line| line.split(KEYWORD).skip(1))
        .any(|rest| AFTER.iter().any(|after| rest.starts_with(after)))
}

#[test]
fn comments_are_not_code() {
    let found = |text: &str| has_unsafe_code(&text.replace("KEYWORD", KEYWORD));
    assert!(found("let x = KEYWORD { read() };"));
    assert!(found("#[KEYWORD(no_mangle)]"));
    assert!(!found("// SAFETY: nothing KEYWORD { here }"));
    assert!(!found("#![forbid(KEYWORD_code)]"));
}
