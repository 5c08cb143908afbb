//! Tests of blocks that are not run: they must be valid in their language, and the commands and
//! options of `timeloom` in them must exist.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::blocks::{Block, blocks_of, documents};

/// Blocks that are neither run nor checked: a picture, fragments of Rust without their context, and
/// the configuration of another program.
const NOT_LOOKED_AT: [(&str, &str); 4] = [
    ("ARCHITECTURE.md", ""),
    ("docs/parallel.md", "rust"),
    ("docs/parallel.md", "rust"),
    ("docs/timeline.md", "ini"),
];

/// Documents whose blocks are run if they are marked `run`.
const RUN: [&str; 1] = ["docs/tutorial.md"];

#[test]
fn every_block_is_run_or_right_in_itself() {
    let mut wrong = Vec::new();
    let mut not_looked_at = Vec::new();
    let mut helps = Helps::default();
    for block in documents().iter().flat_map(|document| blocks_of(document)) {
        let found = match block.kind.as_str() {
            "sh" => shell(&block.text).and_then(|()| commands(&block.text, &mut helps)),
            "sh run" if RUN.contains(&block.document.as_str()) => {
                shell(&block.text).and_then(|()| commands(&block.text, &mut helps))
            }
            "toml" => toml(&block),
            "json" => serde_json::from_str::<serde_json::Value>(&block.text)
                .map(drop)
                .map_err(|error| error.to_string()),
            "python" => fed("python3", &["-c", PYTHON], &block.text),
            // A picture, or the output of a program.
            "text" => Ok(()),
            other => {
                not_looked_at.push((block.document.clone(), other.to_owned()));
                Ok(())
            }
        };
        if let Err(what) = found {
            wrong.push(format!("{}: {what}", block.place()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    not_looked_at.sort();
    let named = NOT_LOOKED_AT.map(|(document, kind)| (document.to_owned(), kind.to_owned()));
    assert_eq!(
        not_looked_at, named,
        "a block without a language, or in one that this test does not know"
    );
}

/// Python code that compiles a source without running it.
const PYTHON: &str = "import ast, sys; ast.parse(sys.stdin.read())";

fn shell(text: &str) -> Result<(), String> {
    fed("bash", &["-n"], text)
}

fn toml(block: &Block) -> Result<(), String> {
    if block.text.contains("schema = ") {
        // The programs of this scenario are in another document.
        let parsed = timeloom_scenario::parse(&block.text, "block.toml", &[]);
        return parsed.map(drop).map_err(|errors| errors.render(false));
    }
    let table: Result<toml::Table, _> = block.text.parse();
    table.map(drop).map_err(|error| error.to_string())
}

fn fed(program: &str, arguments: &[&str], text: &str) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("it is read");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

/// Cache of the output of `--help`, by command.
#[derive(Default)]
struct Helps(HashMap<Vec<String>, Option<String>>);

impl Helps {
    /// Returns the help of a command; `None` if there is no such command.
    fn of(&mut self, command: &[String]) -> Option<&str> {
        let ask = || {
            let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
                .args(command)
                .arg("--help")
                .output()
                .expect("timeloom can be started");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then_some(text)
        };
        let known = self.0.entry(command.to_vec()).or_insert_with(ask);
        known.as_deref()
    }
}

/// Checks that the commands of `timeloom` in a script exist, with their options.
fn commands(script: &str, helps: &mut Helps) -> Result<(), String> {
    for words in calls(script) {
        let mut command: Vec<String> = Vec::new();
        let mut is_named = false;
        for word in &words {
            if word == "--" {
                break;
            }
            if let Some(option) = word.strip_prefix('-') {
                is_named = true;
                let option = option.split('=').next().unwrap_or(option);
                let there = helps.of(&command).is_some_and(|help| {
                    let option = format!("-{option}");
                    let mut words = help.split([' ', '\n', ',', '[', ']', '<', '=']);
                    words.any(|word| word == option)
                });
                if !there {
                    return Err(format!("timeloom {}: no {word}", command.join(" ")));
                }
            } else if !is_named {
                let deeper = [&command[..], std::slice::from_ref(word)].concat();
                let is_first = command.is_empty();
                let names_one = helps.of(&command).is_some_and(|help| {
                    let commands = help.split("Commands:").nth(1).unwrap_or_default();
                    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
                    commands.lines().filter_map(first).any(|name| name == *word)
                });
                match names_one {
                    true => command = deeper,
                    false if is_first => return Err(format!("there is no `timeloom {word}`")),
                    false => is_named = true,
                }
            }
        }
    }
    Ok(())
}

/// Returns the words that follow each `timeloom` in a script.
fn calls(script: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let script = script.replace("\\\n", " ");
    for line in script.lines() {
        let mut is_one = false;
        for word in line.split_whitespace() {
            let ends =
                word.starts_with(['#', '|', ';', '>', '<', '&', '(']) || word.starts_with("2>");
            if word == "timeloom" || word.ends_with("/timeloom") {
                is_one = true;
                found.push(Vec::new());
            } else if ends {
                is_one = false;
            } else if is_one {
                let last = found.last_mut().expect("one has begun");
                last.push(word.trim_matches(['"', '\'', ';']).to_owned());
            }
        }
    }
    found
}

#[test]
fn unknown_commands_and_options_in_documents_are_found() {
    let mut helps = Helps::default();
    let mut check = |script: &str| commands(script, &mut helps);
    assert_eq!(check("timeloom exec --dilate 2 -- sleep --nope 1"), Ok(()));
    assert_eq!(check("timeloom ptp lab --hops 4 | head --nope"), Ok(()));
    assert!(check("timeloom exec --dilat 2 -- sleep 1").is_err());
    assert!(check("x=1 timeloom exce -- sleep 1").is_err());
    assert!(check("timeloom ptp lab --hops 4 \\\n  --nope").is_err());
    assert!(shell("if true").is_err());
}
