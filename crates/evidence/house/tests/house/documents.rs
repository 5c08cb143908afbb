//! Checks of the documents: length of lines, and existence of the targets of links and paths.

use std::fs;
use std::path::{Path, PathBuf};

use timeloom_house::Workspace;

/// Maximum number of characters in a line of prose.
const WIDTH: usize = 100;

/// Documents written by programs (`timeloom bench ptp`, the test of the table of system calls),
/// which do not wrap lines.
const WRITTEN_BY_PROGRAMS: [&str; 2] = ["docs/coverage.md", "docs/ptp-figures.md"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns the documents in the root folder, in `docs`, and next to the examples and the Python
/// package.
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

/// Returns the lines of prose with their numbers, without code blocks and rows of tables.
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

/// Returns the targets of links in `text` that are files of the workspace, without anchors.
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
            // A line without spaces, such as a link or a command, cannot be wrapped.
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

/// Adds all files below a folder of the workspace to `found`.
fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the tree") {
        match entry.expect("an entry").path() {
            inside if inside.is_dir() => files_below(&inside, found),
            file => found.push(file),
        }
    }
}

/// Returns the Rust files that `text` names, each as the end of a path. `a/{b,c}.rs` names two
/// files.
fn named_sources(text: &str) -> Vec<String> {
    let words = text.split('`').skip(1).step_by(2);
    let words = words.filter(|word| word.ends_with(".rs") && !word.contains(char::is_whitespace));
    let both = words.flat_map(|word| match word.split_once('{') {
        None => vec![word.to_owned()],
        Some((before, rest)) => {
            let (choice, after) = rest.split_once('}').expect("a brace is closed");
            let each = choice.split(',');
            each.map(|one| format!("{before}{one}{after}")).collect()
        }
    });
    both.collect()
}

#[test]
fn source_files_that_documents_name_are_there() {
    let mut sources = Vec::new();
    files_below(&root().join("crates"), &mut sources);
    let is_there = |name: &String| sources.iter().any(|path| path.ends_with(name));
    let (mut missing, mut looked_at) = (Vec::new(), 0);
    for document in documents() {
        // The changelog also names files that do not exist any more.
        if document.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&document).expect("UTF-8");
        let named = named_sources(&text);
        looked_at += named.len();
        let unknown = named.into_iter().filter(|name| !is_there(name));
        missing.extend(unknown.map(|name| format!("{}: {name}", document.display())));
    }
    assert!(looked_at > 40, "only {looked_at} files are named");
    assert!(missing.is_empty(), "no such file: {missing:#?}");
}

#[test]
fn the_architecture_draws_and_describes_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("UTF-8");
    let drawing = text.split("```").nth(1).expect("the drawing of the layers");
    for package in Workspace::read().packages {
        let Some(layer) = package.layer else { continue };
        let first = format!(" {} ", layer.folder());
        let rows = drawing.lines().skip_while(|row| !row.starts_with(&first));
        let mut rows = rows.take_while(|row| !row.starts_with(" ---"));
        let name = package.folder.file_name().and_then(|name| name.to_str());
        let name = name.expect("crates/LAYER/NAME");
        let is_drawn = rows.any(|row| row.split_whitespace().any(|word| word == name));
        assert!(is_drawn, "`{name}` is not drawn in {layer:?}");
        let row = format!("\n| `{name}` |");
        assert!(text.contains(&row), "the table has no row of `{name}`");
    }
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

/// Make ignores a declared target that has no rule, without an error.
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
