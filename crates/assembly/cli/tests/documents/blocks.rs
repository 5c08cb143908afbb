//! Fenced blocks of code in the documents.

use std::fs;
use std::path::{Path, PathBuf};

/// Block of code in a document.
#[derive(Debug)]
pub(crate) struct Block {
    /// Path of the document, relative to the root of the source tree.
    pub(crate) document: String,
    /// Number of the line on which the block begins.
    pub(crate) line: usize,
    /// Text after the fence, such as `sh`, `sh run` or `toml`; may be empty.
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Block {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }
}

/// Returns the root of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns the blocks of one document.
pub(crate) fn blocks_of(document: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join(document));
    let text = text.unwrap_or_else(|error| panic!("{document}: {error}"));
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (line, number) in text.lines().zip(1..) {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(kind) => {
                is_open = true;
                blocks.push(Block {
                    document: document.to_owned(),
                    line: number,
                    kind: kind.trim().to_owned(),
                    text: String::new(),
                });
            }
            None if is_open => {
                let block = blocks.last_mut().expect("one is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!is_open, "a block of {document} has no end");
    blocks
}

/// Returns the paths of all documents in the source tree.
pub(crate) fn documents() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![String::new(), "python/".into()];
    for above in ["docs/", "examples/"] {
        folders.push(above.into());
        folders.extend(
            folders_in(above)
                .iter()
                .map(|name| format!("{above}{name}/")),
        );
    }
    for folder in folders {
        let entries = fs::read_dir(root().join(&folder)).expect("a folder of the tree");
        for entry in entries {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".md") {
                found.push(format!("{folder}{name}"));
            }
        }
    }
    found.sort();
    found
}

/// Returns the names of the folders in a folder of the source tree, sorted.
pub(crate) fn folders_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of the tree");
    let folders = entries.map(|entry| entry.expect("an entry"));
    let folders = folders.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with(['.', '_']))
        .collect();
    names.sort();
    names
}
