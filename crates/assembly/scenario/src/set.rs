//! Overrides from the command line: `--set KEY=VALUE`.

use toml::de::{DeTable, DeValue};

use crate::error::Report;
use crate::suggest;
use crate::tree::{self, Node, Spot, Value, label};

/// Applies one override to the tree. `source` is its index among the source texts. The new values
/// are checked like those of the file, and messages about mistakes show the override.
pub(crate) fn apply(root: &mut Node, set: &str, source: usize, report: &mut Report) {
    let Some((key, text)) = set.split_once('=') else {
        let help = "as in `--set attack.dos.enabled=false`".to_owned();
        fail(
            report,
            source,
            0..set.len(),
            "a set must be KEY=VALUE".to_owned(),
            Some(help),
        );
        return;
    };
    let value_spot = Spot {
        source,
        span: key.len() + 1..set.len(),
    };
    let key_spot = Spot {
        source,
        span: 0..key.len(),
    };
    let Some(path) = split_key(key) else {
        let message = format!("`{key}` is not a key");
        let help = "write its parts with dots between, as in `attack.dos.enabled`".to_owned();
        fail(
            report,
            source,
            key_spot.span,
            message,
            Some(help.to_string()),
        );
        return;
    };
    // A value that is not TOML is taken as a string, so that `start=1 s` needs no quotes.
    let value = tree::parse_value(text.trim(), &value_spot, report)
        .unwrap_or_else(|| Value::Text(text.trim().to_owned()));

    let mut node = root;
    for (depth, part) in path.iter().enumerate() {
        match step(node, part, &key_spot) {
            Ok(child) => node = child,
            Err(help) => {
                let done = path[..depth].join(".");
                let message = if done.is_empty() {
                    format!("there is no `{part}`")
                } else {
                    format!("there is no `{part}` in `{done}`")
                };
                fail(
                    report,
                    source,
                    key_spot.span,
                    message,
                    Some(help.to_string()),
                );
                return;
            }
        }
    }
    *node = Node {
        spot: value_spot,
        key: key_spot,
        value,
    };
}

/// Splits a dotted key by the rules of TOML, so that a name that contains a dot can be quoted.
fn split_key(key: &str) -> Option<Vec<String>> {
    let text = format!("{key} = 0");
    let mut table = DeTable::parse(&text).ok()?.into_inner();
    let mut path = Vec::new();
    loop {
        // With a line break, the text would define a second key, or none.
        if table.len() != 1 {
            return None;
        }
        let (part, value) = table.into_iter().next()?;
        path.push(part.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(path),
        }
    }
}

fn fail(
    report: &mut Report,
    source: usize,
    span: std::ops::Range<usize>,
    message: String,
    help: Option<String>,
) {
    report.add(Spot { source, span }, &[""; 0], message, help);
}

/// Reason why a node has no child of a name, with the names of the children that it has.
#[derive(Debug, thiserror::Error)]
enum NoChild {
    #[error("{0}")]
    Unknown(String),
    #[error("the list is empty")]
    Empty,
    #[error("its elements are 0 … {0}")]
    Beyond(usize),
    #[error("the value there is {0}")]
    NoContainer(&'static str),
}

/// Returns the child of this name. If a table lacks it, it is created, and the reader decides later
/// if the key is valid. A list must have it.
fn step<'n>(node: &'n mut Node, part: &str, key_spot: &Spot) -> Result<&'n mut Node, NoChild> {
    match &mut node.value {
        Value::Table(entries) => {
            let index = match entries.iter().position(|(name, _)| name == part) {
                Some(index) => index,
                None => {
                    let spot = key_spot.clone();
                    let new = Node {
                        key: spot.clone(),
                        spot,
                        value: Value::default(),
                    };
                    entries.push((part.to_owned(), new));
                    entries.len() - 1
                }
            };
            Ok(&mut entries[index].1)
        }
        Value::List(items) => {
            let by_name = items.iter().position(|item| label(item) == Some(part));
            let index = by_name
                .or_else(|| part.parse().ok())
                .filter(|index| *index < items.len());
            match index {
                Some(index) => Ok(&mut items[index]),
                None => {
                    let known: Vec<&str> = items.iter().filter_map(label).collect();
                    Err(match (known.is_empty(), items.len()) {
                        (false, _) => {
                            let known = known.iter().copied();
                            NoChild::Unknown(suggest::hint(part, "element", known))
                        }
                        (true, 0) => NoChild::Empty,
                        (true, count) => NoChild::Beyond(count - 1),
                    })
                }
            }
        }
        other => Err(NoChild::NoContainer(other.kind())),
    }
}
