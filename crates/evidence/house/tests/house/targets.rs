//! Checks that `cargo test` builds and runs exactly those targets that contain tests, and examples
//! in the documentation.

use std::fs;
use std::path::Path;

use timeloom_house::{Kind, Workspace};

#[test]
fn examples_in_the_documentation_are_run_where_there_are_some() {
    let mut wrong = Vec::new();
    for package in &Workspace::read().packages {
        for root in &package.roots {
            let Some(runs_examples) = root.runs_examples else {
                continue;
            };
            let there_are = any(&package.folder.join("src"), has_example);
            if runs_examples != there_are {
                wrong.push(format!(
                    "{}: doctest = {runs_examples}, examples: {there_are}",
                    package.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "in their manifests: {wrong:#?}");
}

#[test]
fn targets_without_a_test_run_contain_no_tests() {
    let mut wrong = Vec::new();
    for package in &Workspace::read().packages {
        for root in &package.roots {
            if root.kind != Kind::Product || root.runs_tests {
                continue;
            }
            // A library consists of all files in its folder; a program of these packages is a
            // single file.
            let there_are = match root.runs_examples {
                Some(_) => any(&package.folder.join("src"), has_test),
                None => has_test(&fs::read_to_string(&root.path).expect("UTF-8")),
            };
            if there_are && !root.path.ends_with("build.rs") {
                wrong.push(root.path.clone());
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "tests that test = false hides: {wrong:#?}"
    );
}

/// Returns true if `is_so` is true for any source in `folder`.
fn any(folder: &Path, is_so: fn(&str) -> bool) -> bool {
    fs::read_dir(folder)
        .expect("a folder of a package")
        .any(|entry| {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                return any(&path, is_so);
            }
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            is_rust && is_so(&fs::read_to_string(&path).expect("UTF-8"))
        })
}

fn has_test(source: &str) -> bool {
    source.lines().any(|line| line.trim() == "#[test]")
}

/// Returns true if the documentation contains a code block that rustdoc compiles as Rust.
fn has_example(source: &str) -> bool {
    let blocks = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let text = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))?;
        text.trim_start().strip_prefix("```")
    });
    // Every second marker ends a block.
    let mut beginnings = blocks.step_by(2);
    beginnings.any(|words| {
        words.trim().is_empty()
            || words.trim().split(',').any(|word| {
                matches!(
                    word.trim(),
                    "rust" | "no_run" | "compile_fail" | "should_panic"
                )
            })
    })
}

#[test]
fn an_example_is_told_from_a_drawing() {
    let found = |text: &str| has_example(&text.replace('|', "///"));
    assert!(found("| ```\n| let x = 1;\n| ```"));
    assert!(found("| ```text\n| a\n| ```\n| ```no_run\n| x();\n| ```"));
    assert!(!found("| ```text\n| a — b\n| ```\n"));
    assert!(!found("let text = \"```\";"));
}
