//! Checks of the language of comments, documents and names of tests: beginnings of doc comments,
//! and vague subjects.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::root;
use crate::faults::tests_in;

/// Greatest fraction of doc comments whose summary may begin with a question word.
const MOST_QUESTIONS: f64 = 0.03;

/// Greatest number of lines with vague words, divided by the number of all words.
const MOST_VAGUE: f64 = 0.5 / 10_000.0;

const QUESTIONS: [&str; 10] = [
    "What", "Who", "Whom", "Whose", "How", "Where", "When", "Whether", "Why", "Which",
];

const VAGUE: [&str; 6] = [
    "somebody",
    "nobody",
    "anybody",
    "everybody",
    "whoever",
    "whom",
];

/// Words with which no name of a test begins.
const QUESTIONS_OF_TESTS: [&str; 14] = [
    "what", "who", "whom", "whose", "how", "where", "when", "whether", "why", "which", "whatever",
    "whoever", "wherever", "whenever",
];

/// Words that no name of a test contains.
const VAGUE_IN_TESTS: [&str; 18] = [
    "what",
    "whatever",
    "who",
    "whoever",
    "whom",
    "how",
    "however",
    "why",
    "whether",
    "somebody",
    "nobody",
    "anybody",
    "everybody",
    "someone",
    "anyone",
    "everyone",
    "nobodys",
    "somebodys",
];

/// Adds the files below a folder with this extension to `found`, without build products.
pub(crate) fn files_below(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry").path();
        let hidden = |name: &str| name.starts_with('.') || name == "target" || name == "runs";
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if hidden(&name) {
            continue;
        }
        if path.is_dir() {
            files_below(&path, extension, found);
        } else if path.extension().is_some_and(|kind| kind == extension) {
            found.push(path);
        }
    }
}

/// Returns the text of a comment line, and true if it documents an item; `None` for other lines.
fn comment(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_start();
    let doc = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"));
    match doc {
        Some(text) => Some((text.trim(), true)),
        None => line.strip_prefix("//").map(|text| (text.trim(), false)),
    }
}

/// Returns the words of prose in `text`. Text between backticks is a name, and is left out.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split('`').step_by(2);
    let words = prose.flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty())
}

fn vague(text: &str) -> usize {
    let is_vague = |word: &&str| VAGUE.contains(&word.to_lowercase().as_str());
    words(text).filter(is_vague).count()
}

/// Returns true if a test with this name describes its subject by a pronoun or as a question.
fn is_a_riddle(name: &str) -> bool {
    let mut words = name.split('_');
    QUESTIONS_OF_TESTS
        .iter()
        .any(|word| words.clone().next() == Some(word))
        || words.any(|word| VAGUE_IN_TESTS.contains(&word))
}

/// Returns the names of the tests in a Python file, without the prefix `test_`.
fn python_tests(text: &str) -> impl Iterator<Item = &str> {
    let definitions = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("def test_")
    });
    definitions.filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
}

#[test]
fn names_of_tests_have_subjects_of_the_field() {
    let (mut sources, mut scripts) = (Vec::new(), Vec::new());
    files_below(&root().join("crates"), "rs", &mut sources);
    files_below(&root().join("python"), "py", &mut scripts);
    let (mut count, mut riddles) = (0, Vec::new());
    for path in sources.iter().chain(&scripts) {
        let text = fs::read_to_string(path).expect("UTF-8");
        let names: Vec<&str> = match path.extension().is_some_and(|kind| kind == "py") {
            true => python_tests(&text).collect(),
            false => tests_in(&text).collect(),
        };
        count += names.len();
        let found = names.into_iter().filter(|name| is_a_riddle(name));
        riddles.extend(found.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(count > 2_000, "only {count} tests were found");
    assert!(
        riddles.is_empty(),
        "name the subject and its property, as in `a_sender_without_the_key_is_not_heard`: \
         {riddles:#?}"
    );
}

#[test]
fn riddles_are_told_from_names() {
    for riddle in [
        "what_is_no_message_is_refused",
        "a_stranger_is_nobody",
        "where_time_skips_nothing_waits",
        "only_who_has_the_key_is_heard",
    ] {
        assert!(is_a_riddle(riddle), "{riddle}");
    }
    for name in [
        "a_run_whose_granter_dies_names_it",
        "a_lost_segment_is_sent_again_when_the_kernel_would",
        "whole_numbers_are_read",
    ] {
        assert!(!is_a_riddle(name), "{name}");
    }
    let text = "def test_a():\n    pass\n  async def test_b(it):\ndef helper(): ...\n";
    assert!(python_tests(text).eq(["a", "b"]));
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun_phrase() {
    let mut sources = Vec::new();
    files_below(&root().join("crates"), "rs", &mut sources);
    let (mut summaries, mut questions) = (0, Vec::new());
    for path in sources {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let mut is_inside = false;
        for (line, number) in text.lines().zip(1..) {
            let doc = comment(line).filter(|(_, is_doc)| *is_doc);
            let begins = doc.filter(|(text, _)| !is_inside && !text.is_empty());
            is_inside = doc.is_some();
            let Some((summary, _)) = begins else { continue };
            summaries += 1;
            if words(summary)
                .next()
                .is_some_and(|word| QUESTIONS.contains(&word))
            {
                questions.push(format!("{}:{number}: {summary}", path.display()));
            }
        }
    }
    let share = questions.len() as f64 / f64::from(summaries);
    assert!(
        share < MOST_QUESTIONS,
        "{} of {summaries} doc comments begin with a question word: {questions:#?}",
        questions.len()
    );
}

#[test]
fn sentences_have_subjects_of_the_field() {
    let (mut all, mut found) = (0, Vec::new());
    let mut count = |path: &Path, number: usize, text: &str| {
        all += words(text).count();
        if vague(text) > 0 {
            found.push(format!("{}:{number}: {text}", path.display()));
        }
    };
    let mut sources = Vec::new();
    files_below(&root().join("crates"), "rs", &mut sources);
    for path in sources {
        let text = fs::read_to_string(&path).expect("UTF-8");
        for (line, number) in text.lines().zip(1..) {
            if let Some((text, _)) = comment(line) {
                count(&path, number, text);
            }
        }
    }
    let mut documents = Vec::new();
    for folder in ["docs", "examples", "python"] {
        files_below(&root().join(folder), "md", &mut documents);
    }
    documents.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|it| root().join(it)));
    for path in documents {
        let text = fs::read_to_string(&path).expect("UTF-8");
        for (line, number) in text.lines().zip(1..) {
            count(&path, number, line);
        }
    }
    let share = found.len() as f64 / all as f64;
    assert!(
        share <= MOST_VAGUE,
        "{} in {all} words: {found:#?}",
        found.len()
    );
}

#[test]
fn names_are_no_words() {
    assert_eq!(vague("Nobody reads `whoever`; somebody's clock"), 2);
    assert_eq!(words("a b-c `d` e").count(), 4);
}
