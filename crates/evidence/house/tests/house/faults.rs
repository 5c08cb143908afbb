//! Checks of the table of faults. Each test in the table exists, each test in a module of faults is
//! in the table, and each checks that it leaves no process or resource behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::documents::root;
use crate::language::files_below;

/// Test that the table names: the function, and its file relative to the root folder.
type Named = (String, PathBuf);

/// Returns the tests that rows of the table name, in the form [`name`](../file).
fn named(table: &str) -> BTreeSet<Named> {
    let rows = table.lines().filter(|line| line.starts_with('|'));
    let links = rows.flat_map(|row| row.split("[`").skip(1));
    links
        .filter_map(|link| {
            let (name, rest) = link.split_once("`](../")?;
            let (file, _) = rest.split_once(')')?;
            Some((name.to_owned(), PathBuf::from(file)))
        })
        .collect()
}

/// Returns the names of the tests in a file.
pub(crate) fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("#[test]").skip(1);
    after.filter_map(|rest| {
        rest.split_once("fn ")?
            .1
            .split_once('(')
            .map(|(name, _)| name)
    })
}

fn table() -> BTreeSet<Named> {
    let text = fs::read_to_string(root().join("docs/faults.md")).expect("the table of faults");
    let named = named(&text);
    assert!(named.len() > 15, "{named:?}");
    named
}

#[test]
fn every_test_in_the_table_of_faults_is_there() {
    for (name, file) in table() {
        let text = fs::read_to_string(root().join(&file));
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let there = tests_in(&text).any(|test| test == name);
        assert!(
            there,
            "docs/faults.md: no test `{name}` in {}",
            file.display()
        );
    }
}

/// Returns the functions of a file by name, each with its text up to the next function.
fn functions(text: &str) -> BTreeMap<&str, &str> {
    let pieces = text.split("fn ").skip(1);
    let named = pieces.filter_map(|piece| {
        let end = piece.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        Some((&piece[..end], &piece[end..]))
    });
    named.collect()
}

/// Returns true if function `from` contains `word`, or calls a function of the same file that does.
fn reaches(functions: &BTreeMap<&str, &str>, from: &str, word: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(name) = next.pop() {
        let Some(body) = functions.get(name).filter(|_| seen.insert(name)) else {
            continue;
        };
        if body.contains(word) {
            return true;
        }
        let in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let called = |name: &&&str| {
            body.match_indices(**name).any(|(at, _)| {
                body[at + name.len()..].starts_with('(') && !body[..at].ends_with(in_name)
            })
        };
        next.extend(functions.keys().filter(called).copied());
    }
    false
}

/// The check covers all tests in the table, except those that the table marks.
#[test]
fn every_test_in_the_table_checks_for_leftovers() {
    let table = fs::read_to_string(root().join("docs/faults.md")).expect("the table of faults");
    let mut without = Vec::new();
    for (name, file) in named(&table) {
        let text = fs::read_to_string(root().join(&file)).expect("it is there");
        let looks = reaches(&functions(&text), &name, "assert_nothing_left");
        let link = format!("[`{name}`](../{})", file.display());
        let is_marked = table.contains(&format!("{link}°"));
        if looks == is_marked {
            without.push(name);
        }
    }
    assert!(
        without.is_empty(),
        "docs/faults.md: neither marked nor looked at, or both: {without:#?}"
    );
}

#[test]
fn calls_between_functions_are_followed() {
    let text = "fn a() { b() }\nfn b() { if x { c(1) } }\nfn c(x: u8) { look() }\nfn d() { ac() }";
    let functions = functions(text);
    assert!(reaches(&functions, "a", "look"));
    assert!(!reaches(&functions, "d", "look"));
}

#[test]
fn every_test_of_a_fault_is_in_the_table() {
    let mut files = Vec::new();
    files_below(&root().join("crates"), "rs", &mut files);
    let of_faults = |path: &&PathBuf| path.components().any(|part| part.as_os_str() == "faults");
    let named = table();
    let mut count = 0;
    for path in files.iter().filter(of_faults) {
        let file = path.strip_prefix(root()).expect("in the tree").to_owned();
        let text = fs::read_to_string(path).expect("UTF-8");
        for test in tests_in(&text) {
            count += 1;
            let entry = (test.to_owned(), file.clone());
            assert!(named.contains(&entry), "docs/faults.md lacks {entry:?}");
        }
    }
    assert!(count >= 5, "{count}");
}
