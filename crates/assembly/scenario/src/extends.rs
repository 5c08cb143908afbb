//! Key `extends = "other.toml"`: a scenario that contains only changes to another scenario.
//!
//! Files are merged as trees, before any value is read. The result is therefore checked like a
//! single file, and each mistake is shown in the file that contains it. If the other file is
//! outside of the scenario's directory, its content is never shown: the scenario may come from an
//! untrusted source, and the file may be readable only for the current user.

use timeloom_sys::plain;

use crate::error::{Report, Source};
use crate::tree::{self, Node, Value, label};

/// Key whose value is the path of the extended file.
pub(crate) const KEY: &str = "extends";

/// Maximum length of a chain of files that extend one another. A longer chain is reported as a
/// cycle.
const MOST_FILES: usize = 8;

/// Merges the scenario `root` over the file that its key `extends` names. That file may itself
/// extend another. Returns `None` if nothing is left to be checked; `report` then has the reason.
pub(crate) fn resolve(mut root: Node, report: &mut Report) -> Option<Node> {
    for _ in 0..MOST_FILES {
        let Some(named) = take(&mut root) else {
            return Some(root);
        };
        let source = match read(&named, report) {
            Ok(source) => source,
            Err((message, help)) => {
                let help = help.map(str::to_owned);
                report.add(named.spot, &[KEY], message, help);
                return None;
            }
        };
        let text = source.text.clone();
        let number = report.add_source(source);
        let mut under = tree::parse(&text, number, report);
        if !report.is_clean() {
            return None;
        }
        lay_over(&mut under, root);
        root = under;
    }
    let Some(named) = take(&mut root) else {
        return Some(root);
    };
    let message = format!(
        "more than {MOST_FILES} files extend one another: does a file extend \
        itself?"
    );
    report.add(named.spot, &[KEY], message, None);
    None
}

fn take(root: &mut Node) -> Option<Node> {
    let Value::Table(entries) = &mut root.value else {
        return None;
    };
    let index = entries.iter().position(|(key, _)| key == KEY)?;
    Some(entries.remove(index).1)
}

/// Reads the file whose name is the value of `named`. The error has a message and a suggested fix.
fn read(named: &Node, report: &Report) -> Result<Source, (String, Option<&'static str>)> {
    let Value::Text(name) = &named.value else {
        let kind = named.value.kind();
        return Err((
            format!("`{KEY}` must be a text in quotes, not {kind}"),
            None,
        ));
    };
    let Some(beside) = report.directory(&named.spot) else {
        let message = "only a scenario that is read from a file can extend another";
        return Err((message.to_owned(), None));
    };
    let path = beside.join(name);
    let read = plain::read_text_below(report.top(), &path, Source::MOST_BYTES);
    let (text, is_below) = read.map_err(|error| {
        let help = "the path is relative to the directory of the file that extends it";
        (format!("`{name}` cannot be read: {error}"), Some(help))
    })?;
    // Messages show the name relative to the file that contains it.
    let called = report.name_beside(&named.spot, name);
    let source = Source::file(&called, &text, path.parent().map(Into::into));
    Ok(match is_below {
        true => source,
        false => source.hidden(named.spot.clone()),
    })
}

/// Merges `over` into `under`. Tables are merged key by key. Of two lists of tables, elements with
/// the same name or id are merged, and the others are appended. Every other value is replaced.
fn lay_over(under: &mut Node, over: Node) {
    match (&mut under.value, over.value) {
        (Value::Table(entries), Value::Table(more)) => {
            for (key, node) in more {
                match entries.iter_mut().find(|(name, _)| *name == key) {
                    Some((_, there)) => lay_over(there, node),
                    None => entries.push((key, node)),
                }
            }
        }
        (Value::List(items), Value::List(more)) if are_tables(items) && are_tables(&more) => {
            for node in more {
                let named = label(&node)
                    .and_then(|name| items.iter().position(|item| label(item) == Some(name)));
                match named {
                    Some(index) => lay_over(&mut items[index], node),
                    None => items.push(node),
                }
            }
        }
        (_, value) => {
            *under = Node {
                value,
                spot: over.spot,
                key: over.key,
            };
        }
    }
}

/// Returns true if all elements are tables. An empty list counts as a list of other values, which
/// replaces, so that a scenario can empty a list.
fn are_tables(items: &[Node]) -> bool {
    let is_table = |item: &Node| matches!(item.value, Value::Table(_));
    !items.is_empty() && items.iter().all(is_table)
}
