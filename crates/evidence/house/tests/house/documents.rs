//! Documents that a reader can follow: lines that fit, and links that lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Characters in a line of prose.
const WIDTH: usize = 100;

/// Written by programs (`timeloom bench ptp`, the test of the call table), which break no lines.
const WRITTEN_BY_PROGRAMS: [&str; 2] = ["docs/coverage.md", "docs/ptp-figures.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The documents at the top, in `docs`, beside the examples and the Python package.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root(), root().join("python")];
    for above in ["docs", "examples"] {
        folders.push(root().join(above));
        let inside = fs::read_dir(root().join(above)).expect("a folder of the tree");
        folders.extend(inside.map(|entry| entry.expect("an entry").path()));
    }
    for folder in folders.iter().filter(|path| path.is_dir()) {
        let inside = fs::read_dir(folder).expect("a folder of the tree");
        let files = inside.map(|entry| entry.expect("an entry").path());
        found.extend(files.filter(|path| path.extension().is_some_and(|kind| kind == "md")));
    }
    found.sort();
    found
}

/// The lines that are prose, with their numbers: no code, no rows of a table.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let lines = text.lines().zip(1..);
    lines
        .filter(|(line, _)| {
            let fence = line.trim_start().starts_with("```");
            in_code ^= fence;
            !fence && !in_code && !line.trim_start().starts_with('|')
        })
        .map(|(line, number)| (number, line))
        .collect()
}

/// Where the links of `text` lead within the tree, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("](").skip(1);
    after
        .filter_map(|rest| rest.split(')').next())
        .filter(|to| !to.contains("://") && !to.starts_with('#'))
        .filter_map(|to| to.split('#').next())
}

#[test]
fn lines_of_prose_fit() {
    let mut wide = Vec::new();
    let by_hand = |document: &PathBuf| {
        !WRITTEN_BY_PROGRAMS
            .iter()
            .any(|one| document.ends_with(one))
    };
    for document in documents().into_iter().filter(by_hand) {
        let text = fs::read_to_string(&document).expect("UTF-8");
        for (number, line) in prose(&text) {
            // A link or a command cannot be broken.
            if line.chars().count() > WIDTH && line.trim().contains(' ') {
                wide.push(format!("{}:{number}", document.display()));
            }
        }
    }
    assert!(wide.is_empty(), "more than {WIDTH} characters: {wide:#?}");
}

#[test]
fn links_lead_to_files() {
    let mut dead = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("UTF-8");
        let folder = document.parent().expect("a file");
        let unknown = links(&text).filter(|to| !folder.join(to).exists());
        dead.extend(unknown.map(|to| format!("{}: {to}", document.display())));
    }
    assert!(dead.is_empty(), "no such file: {dead:#?}");
}

#[test]
fn every_document_is_in_the_index() {
    let index = fs::read_to_string(root().join("docs/index.md")).expect("the index");
    let listed: Vec<_> = links(&index).collect();
    let in_docs = fs::read_dir(root().join("docs")).expect("the documents");
    let missing: Vec<_> = in_docs
        .map(|entry| entry.expect("an entry").file_name())
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".md") && name != "index.md")
        .filter(|name| !listed.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/index.md lacks {missing:?}");
}

/// A target that is declared and has no rule does nothing, and says nothing.
#[test]
fn every_make_target_has_a_rule() {
    let makefile = root().join("Makefile");
    let text = fs::read_to_string(makefile).expect("UTF-8");
    let declared = text.lines().filter_map(|line| line.strip_prefix(".PHONY:"));
    let declared: Vec<&str> = declared.flat_map(str::split_whitespace).collect();
    let rules = text.lines().filter_map(|line| line.split_once(':'));
    let rules: Vec<&str> = rules.map(|(target, _)| target).collect();
    let without = declared.iter().filter(|target| !rules.contains(*target));
    let without: Vec<_> = without.collect();
    assert!(declared.len() > 20, "{declared:?}");
    assert!(without.is_empty(), "without a rule: {without:?}");
}
