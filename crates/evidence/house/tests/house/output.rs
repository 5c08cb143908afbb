//! Checks that only `timeloom-exit` prints. It filters the output, most of which comes from
//! programs, other machines and other users' run directories.

use std::fs;
use std::path::{Path, PathBuf};

use timeloom_house::Workspace;

use crate::documents::root;
use crate::language::files_below;

/// Macros that print without the filter.
const MACROS: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// Handle by which a line could be written to stderr without the filter.
const HANDLE: &str = "stderr()";

/// File that may print.
const FILTER: &str = "crates/assembly/exit/src/output.rs";

/// Files that may use the handle, because they pass their streams on to a program.
const MAY_USE_HANDLE: [&str; 2] = [
    "crates/assembly/cli/src/commands/exec.rs",
    "crates/assembly/cli/src/commands/inside.rs",
];

/// Folder of a module that is compiled for tests only.
const TESTS_ONLY: &str = "crates/models/accord/src/explore";

/// Returns the sources of all libraries and programs, relative to the root folder.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for package in Workspace::read().packages {
        let folder = package.folder.join("src");
        if folder.is_dir() {
            files_below(&folder, "rs", &mut files);
        }
    }
    let root = fs::canonicalize(root()).expect("the root folder");
    let below = |path: PathBuf| {
        let path = fs::canonicalize(path).expect("a file of the tree");
        path.strip_prefix(&root).expect("in the tree").to_owned()
    };
    let is_test = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        name == "tests" || name.ends_with("_tests") || path.starts_with(TESTS_ONLY)
    };
    files
        .into_iter()
        .map(below)
        .filter(|it| !is_test(it))
        .collect()
}

/// Returns the lines before the tests of a file, with their numbers and without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let product = text
        .lines()
        .take_while(|line| line.trim() != "#[cfg(test)]");
    product.zip(1..).map(|(line, number)| {
        let code = line.split("//").next().unwrap_or_default();
        (number, code)
    })
}

/// Returns true if the line of code prints with a macro of the standard library.
fn prints(code: &str) -> bool {
    let is_within = |name: &str| {
        code.match_indices(name).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
        })
    };
    MACROS.into_iter().any(is_within)
}

/// Returns true if the line of code could write to stderr.
fn uses_handle(code: &str) -> bool {
    code.replace("stderr().is_terminal()", "").contains(HANDLE)
}

#[test]
fn only_the_filter_of_output_prints() {
    let files = sources();
    assert!(files.len() > 500, "{} sources", files.len());
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| **path != *Path::new(FILTER)) {
        let text = fs::read_to_string(root().join(path)).expect("UTF-8");
        let may = MAY_USE_HANDLE.iter().any(|file| path == Path::new(file));
        for (number, code) in code(&text) {
            if prints(code) || !may && uses_handle(code) {
                wrong.push(format!("{}:{number}: {}", path.display(), code.trim()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "printed without a filter (use `note!` or `say!` of timeloom-exit): {wrong:#?}"
    );
}

#[test]
fn every_file_on_the_list_of_handles_uses_one() {
    for file in MAY_USE_HANDLE {
        let text = fs::read_to_string(root().join(file)).expect("a file of the tree");
        let uses = code(&text).any(|(_, code)| uses_handle(code));
        assert!(uses, "{file} does not use stderr: take it off the list");
    }
}

#[test]
fn printing_is_recognised() {
    assert!(prints("    eprintln!(\"x\");") && prints("println!();"));
    assert!(!prints("say!(\"x\"); my_println!()"));
    assert!(uses_handle("let err = std::io::stderr();"));
    assert!(!uses_handle("if std::io::stderr().is_terminal() {"));
    let text = "//! println!(\"x\")\nfn a() {}\n#[cfg(test)]\nmod tests { println!() }";
    assert!(!code(text).any(|(_, code)| prints(code)));
}
