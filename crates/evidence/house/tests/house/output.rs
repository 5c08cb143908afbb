//! Checks that only `timeloom_run::exit` prints. It filters the output, most of which comes from
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
const FILTER: &str = "crates/assembly/run/src/exit/output.rs";

/// Files that may use the handle, because they pass their streams on to a program.
const MAY_USE_HANDLE: [&str; 2] = [
    "crates/assembly/cli/src/commands/exec.rs",
    "crates/assembly/cli/src/commands/inside.rs",
];

/// Folder of a module that is compiled for tests only.
const TESTS_ONLY: [&str; 2] = [
    "crates/models/agreement/src/explore",
    "crates/models/agreement/src/turns/tests",
];

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
        name == "tests"
            || name.ends_with("_tests")
            || TESTS_ONLY.iter().any(|only| path.starts_with(only))
    };
    files
        .into_iter()
        .map(below)
        .filter(|it| !is_test(it))
        .collect()
}

/// Returns the lines of a file that are compiled for the product, with their numbers and without
/// comments. Reads the layout that rustfmt produces.
fn code(text: &str) -> Vec<(usize, &str)> {
    let mut product = Vec::new();
    let mut lines = text.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            product.push((number, line.split("//").next().unwrap_or_default()));
            continue;
        }
        while lines.next_if(|(next, _)| is_attribute(next)).is_some() {}
        if lines.peek().is_some_and(|(next, _)| opens_module(next)) {
            break;
        }
        let indentation = indentation_of(line);
        // The item ends at the first line of its own indentation that is complete.
        let is_within = |(next, _): &(&str, usize)| {
            indentation_of(next) != indentation || !next.ends_with([';', ',', '}'])
        };
        while lines.next_if(is_within).is_some() {}
        lines.next();
    }
    product
}

/// Returns true if the line is an attribute or a comment of the item below it.
fn is_attribute(line: &str) -> bool {
    line.trim().starts_with("#[") || line.trim().starts_with("//")
}

/// Returns true if the line begins a module whose content follows.
fn opens_module(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words = match words[..] {
        [visibility, ref rest @ ..] if visibility.starts_with("pub") => rest,
        ref all => all,
    };
    matches!(words, ["mod", _, "{", ..])
}

fn indentation_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
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
        "printed without a filter (use `note!` or `say!` of timeloom_run::exit): {wrong:#?}"
    );
}

#[test]
fn every_file_on_the_list_of_handles_uses_one() {
    for file in MAY_USE_HANDLE {
        let text = fs::read_to_string(root().join(file)).expect("a file of the tree");
        let uses = code(&text).iter().any(|(_, code)| uses_handle(code));
        assert!(uses, "{file} does not use stderr: take it off the list");
    }
}

#[test]
fn printing_is_recognised() {
    assert!(prints("    eprintln!(\"x\");") && prints("println!();"));
    assert!(!prints("say!(\"x\"); my_println!()"));
    assert!(uses_handle("let err = std::io::stderr();"));
    assert!(!uses_handle("if std::io::stderr().is_terminal() {"));
}

#[test]
fn only_code_of_tests_is_left_out() {
    let printing = |text: &str| -> Vec<usize> {
        let lines = code(text).into_iter();
        let lines = lines.filter(|(_, code)| prints(code));
        lines.map(|(number, _)| number).collect()
    };
    let module = "//! println!(\"x\")\nfn a() {}\n#[cfg(test)]\nmod tests { println!() }";
    assert_eq!(printing(module), [0; 0]);
    let public = "#[cfg(test)]\npub(super) mod tests {\n}\nprintln!();\n";
    assert_eq!(printing(public), [0; 0]);
    for item in [
        "mod tests;",
        "#[path = \"x_tests.rs\"]\nmod tests;",
        "flaw: Option<Flaw>,",
        "fn sizes(\n    first: usize,\n) -> usize {\n    println!();\n}",
        "if first {\n    println!();\n} else {\n    println!();\n}",
    ] {
        let text = format!("#[cfg(test)]\n{item}\nprintln!();\n");
        assert_eq!(printing(&text), [text.lines().count()], "{item}");
    }
}
