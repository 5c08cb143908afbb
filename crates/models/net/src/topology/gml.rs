//! Topologies from GML files, as used by the Topology Zoo and Shadow.

use super::graph::{Entry, GraphError, Value, build, fail};
use crate::{LinkConfig, NetworkBuilder, Node};

/// Adds the nodes and edges of a GML graph (Himsolt, "GML: a portable graph file format", 1997).
/// Returns the nodes in the order of the file.
///
/// A node has the attributes `id`, `label` (its name; by default, the id) and `type`, which is
/// `host`, `switch` or, by default, `router`. An edge has the attributes `source` and `target`;
/// `LinkSpeedRaw` (Topology Zoo) or `bandwidth_bps`, in bits per second; `latency` (Shadow), such
/// as "10 ms"; and `packet_loss` (Shadow), from 0 to 1. If an attribute of an edge is missing, that
/// of `link` is used. Other keys are ignored.
///
/// # Errors
///
/// Fails, with the number of the line, if the text is not GML or a value is invalid.
pub fn gml(
    network: &mut NetworkBuilder,
    text: &str,
    link: &LinkConfig,
) -> Result<Vec<Node>, GraphError> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
    };
    let file = reader.list(0)?;
    let graph = file.iter().find(|entry| entry.key == "graph");
    let graph = graph.ok_or_else(|| fail(1, "there is no `graph [`"))?;
    build(network, graph, link)
}

enum Token {
    Word(String),
    Open,
    Close,
}

/// Splits the text into words, strings (without quotes) and brackets; `#` begins a comment.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, GraphError> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let (token, used) = match first {
                '#' => break,
                '[' => (Token::Open, 1),
                ']' => (Token::Close, 1),
                '"' => {
                    let end = rest[1..].find('"');
                    let end = end.ok_or_else(|| {
                        fail(
                            number,
                            "the closing quote of a string is \
                        missing",
                        )
                    })?;
                    (Token::Word(rest[1..=end].to_owned()), end + 2)
                }
                _ => {
                    let end = rest.find(|c: char| c.is_whitespace() || "[]\"".contains(c));
                    let end = end.unwrap_or(rest.len());
                    (Token::Word(rest[..end].to_owned()), end)
                }
            };
            tokens.push((number, token));
            rest = rest[used..].trim_start();
        }
    }
    Ok(tokens)
}

struct Reader {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

/// Maximum nesting of lists. A graph needs three levels, and a hostile file must not exhaust the
/// stack.
const DEPTH: usize = 32;

impl Reader {
    /// Parses keys and values up to the closing bracket; at depth 0, up to the end of the text.
    fn list(&mut self, depth: usize) -> Result<Vec<Entry>, GraphError> {
        let mut entries = Vec::new();
        loop {
            let (line, key) = match self.tokens.get_mut(self.at) {
                None if depth == 0 => return Ok(entries),
                None => return Err(fail(self.last_line(), "a `]` is missing")),
                Some((_, Token::Close)) if depth > 0 => return Ok(entries),
                Some((line, Token::Word(key))) => (*line, core::mem::take(key)),
                Some((line, _)) => return Err(fail(*line, "a key is missing")),
            };
            self.at += 1;
            let value = match self.tokens.get_mut(self.at) {
                Some((_, Token::Word(text))) => Value::Text(core::mem::take(text)),
                Some((line, Token::Open)) if depth == DEPTH => {
                    return Err(fail(*line, "lists are nested more than 32 levels deep"));
                }
                Some((_, Token::Open)) => {
                    self.at += 1;
                    Value::List(self.list(depth + 1)?)
                }
                _ => return Err(fail(line, "a key has no value")),
            };
            self.at += 1;
            entries.push(Entry { line, key, value });
        }
    }

    fn last_line(&self) -> usize {
        self.tokens.last().map_or(1, |(line, _)| *line)
    }
}
