//! Tests that the tables in the documents are complete.

use crate::blocks::{folders_in, root};

#[test]
fn every_example_is_in_the_table_of_examples() {
    let table = std::fs::read_to_string(root().join("examples/README.md")).expect("the table");
    let folders = folders_in("examples");
    let missing: Vec<_> = folders
        .iter()
        .filter(|name| !table.contains(&format!("| [{name}]({name}) |")))
        .collect();
    assert!(missing.is_empty(), "examples/README.md lacks {missing:?}");
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    for (name, _) in rows {
        assert!(
            folders.iter().any(|folder| folder == name),
            "a row of an example that is gone: {name}"
        );
    }
}

#[test]
fn every_exit_code_of_a_run_is_in_the_table_of_results() {
    let text = std::fs::read_to_string(root().join("docs/results.md")).expect("the document");
    let section = text.split("## Exit codes of a run").nth(1);
    let section = section.expect("a section").split("\n## ").next();
    let rows = section.expect("a section").lines();
    let rows: Vec<(u8, &str)> = rows
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .filter_map(|(code, meaning)| Some((code.parse().ok()?, meaning)))
        .collect();
    let codes: Vec<u8> = rows.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
    for (code, part) in [
        (timeloom_run::exit::UNTRUSTED, "not to be trusted"),
        (timeloom_run::exit::TEXTS_DIFFER, "with `--verify` only"),
    ] {
        let row = rows.iter().find(|(its, _)| *its == code);
        let (_, meaning) = row.expect("a row of the code");
        assert!(meaning.contains(part), "{code}: {meaning}");
    }
}
