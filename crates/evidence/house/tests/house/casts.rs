//! Checks that the crates of words and models have clippy's lints for conversions by `as`.

use std::fs;
use std::path::Path;

/// Conversions that lose bits or change the sign, and those for which `From` exists.
const LINTS: [&str; 4] = [
    "clippy::cast_possible_truncation",
    "clippy::cast_possible_wrap",
    "clippy::cast_sign_loss",
    "clippy::cast_lossless",
];

#[test]
fn words_and_models_are_linted_for_lossy_casts() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut without, mut looked_at) = (Vec::new(), 0);
    for layer in ["words", "models"] {
        for entry in fs::read_dir(crates.join(layer)).expect("a layer") {
            let root = entry.expect("an entry").path().join("src/lib.rs");
            let text = fs::read_to_string(&root).expect("UTF-8");
            looked_at += 1;
            if LINTS.iter().any(|lint| !text.contains(lint)) {
                without.push(root);
            }
        }
    }
    assert!(looked_at > 8, "only {looked_at} crates");
    assert!(without.is_empty(), "without lints for casts: {without:#?}");
}
