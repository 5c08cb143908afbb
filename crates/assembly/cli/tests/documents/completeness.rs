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
