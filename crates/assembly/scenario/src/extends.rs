//! `extends = "other.toml"`: a scenario that contains only the changes to another scenario.
//!
//! Files are merged as trees, before any value is read. The combination is therefore checked like a
//! single file, and each mistake is shown in the file that contains it. Content of a file outside
//! of the scenario's directory is never shown: the scenario may come from an untrusted source, and
//! the file may be readable only to the current user.

use timeloom_sys::plain;

use crate::error::{Report, Source};
use crate::tree::{self, Node, Value, label};

/// Key with the path of the extended file.
pub(crate) const KEY: &str = "extends";

/// Maximum length of a chain of files that extend one another; a longer one is reported as a cycle.
const MOST_FILES: usize = 8;

/// Removes the key from `root` and merges `root` over the file that the key names, which may itself
/// extend another file. Returns `None` if nothing remains to be checked; the reason is in `report`.
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
    let message = format!("more than {MOST_FILES} files extend one another: is it a circle?");
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

/// Reads the file that `named` names; fails with a message and a suggested fix.
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
        let help = "it is looked for from the directory of the file that extends it";
        (format!("`{name}` cannot be read: {error}"), Some(help))
    })?;
    // The displayed name is relative to the file that extends it.
    let called = report.name_beside(&named.spot, name);
    let source = Source::file(&called, &text, path.parent().map(Into::into));
    Ok(match is_below {
        true => source,
        false => source.hidden(named.spot.clone()),
    })
}

/// Merges tables key by key, and list elements that have the same name or id. Other tables of a
/// list are appended to the list. All other values are replaced.
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

/// The element type of an empty list is unknown. An empty list replaces, so that a list can be
/// emptied.
fn are_tables(items: &[Node]) -> bool {
    let is_table = |item: &Node| matches!(item.value, Value::Table(_));
    !items.is_empty() && items.iter().all(is_table)
}
