//! Topologies from GML files, as the Topology Zoo and Shadow have them.

use core::fmt;
use std::collections::HashMap;

use timeloom_time::Duration;

use crate::{LinkConfig, NetworkBuilder, Node};

/// Why a GML text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GmlError {
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for GmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for GmlError {}

/// Adds the nodes and edges of a GML graph (Himsolt, "GML: a portable graph
/// file format", 1997) and gives back the nodes in the order of the file.
///
/// Of a node it takes `id`, `label` (else the id is the name) and `type`, which
/// is `host`, `switch` or, by default, `router`. Of an edge: `source`,
/// `target`; `LinkSpeedRaw` (Topology Zoo) or `bandwidth_bps`, in bits per
/// second; `latency` (Shadow), such as "10 ms"; `packet_loss` (Shadow), from 0
/// to 1. What an edge does not say is as in `link`. Other keys are skipped.
///
/// # Errors
///
/// With the line, when the text is no GML or a value is none.
pub fn gml(
    network: &mut NetworkBuilder,
    text: &str,
    link: &LinkConfig,
) -> Result<Vec<Node>, GmlError> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
    };
    let file = reader.list(0)?;
    let graph = file.iter().find(|entry| entry.key == "graph");
    let graph = graph.ok_or_else(|| fail(1, "there is no `graph [`"))?;
    let mut by_id = HashMap::new();
    let mut nodes = Vec::new();
    for entry in graph.children().filter(|entry| entry.key == "node") {
        let id = entry.need("id")?;
        let name = entry.get("label").unwrap_or(id).text();
        let node = match entry.get("type").map(Entry::text) {
            Some("host") => network.host(name),
            Some("switch") => network.switch(name),
            None | Some("router") => network.router(name),
            Some(_) => return Err(fail(entry.line, "a type is host, switch or router")),
        };
        if by_id.insert(id.text().to_owned(), node).is_some() {
            return Err(fail(id.line, "another node has this id"));
        }
        nodes.push(node);
    }
    for edge in graph.children().filter(|entry| entry.key == "edge") {
        let mut link = link.clone();
        let rate = edge.get("LinkSpeedRaw").or(edge.get("bandwidth_bps"));
        if let Some(rate) = rate {
            link.rate_bps = rate.number()? as u64;
        }
        if let Some(latency) = edge.get("latency") {
            let parsed = latency.text().parse::<Duration>();
            link.delay = parsed.map_err(|error| fail(latency.line, &error.to_string()))?;
        }
        if let Some(loss) = edge.get("packet_loss") {
            link.impairment.loss = loss.number()?;
        }
        let end = |key| {
            let end = edge.need(key)?;
            let node = by_id.get(end.text()).copied();
            node.ok_or_else(|| fail(end.line, "no node has this id"))
        };
        network.connect(end("source")?, end("target")?, link);
    }
    Ok(nodes)
}

fn fail(line: usize, message: &str) -> GmlError {
    GmlError {
        line,
        message: message.to_owned(),
    }
}

struct Entry {
    line: usize,
    key: String,
    value: Value,
}

enum Value {
    Text(String),
    List(Vec<Entry>),
}

impl Entry {
    fn children(&self) -> impl Iterator<Item = &Entry> {
        match &self.value {
            Value::List(list) => list.iter(),
            Value::Text(_) => [].iter(),
        }
    }

    fn get(&self, key: &str) -> Option<&Entry> {
        self.children().find(|entry| entry.key == key)
    }

    fn need(&self, key: &str) -> Result<&Entry, GmlError> {
        let missing = || fail(self.line, &format!("this {} has no `{key}`", self.key));
        self.get(key).ok_or_else(missing)
    }

    fn text(&self) -> &str {
        match &self.value {
            Value::Text(text) => text,
            Value::List(_) => "",
        }
    }

    fn number(&self) -> Result<f64, GmlError> {
        let parsed = self.text().parse();
        parsed.map_err(|_| fail(self.line, &format!("`{}` is no number", self.text())))
    }
}

enum Token {
    Word(String),
    Open,
    Close,
}

/// Words, strings without their quotes, brackets; comments begin with `#`.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, GmlError> {
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
                    let end = end.ok_or_else(|| fail(number, "a string does not end"))?;
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

/// Lists within lists; a graph needs three, and a hostile file shall not use
/// up the stack.
const DEPTH: usize = 32;

impl Reader {
    /// Keys and values up to the closing bracket, or to the end at depth 0.
    fn list(&mut self, depth: usize) -> Result<Vec<Entry>, GmlError> {
        let mut entries = Vec::new();
        loop {
            let (line, key) = match self.tokens.get_mut(self.at) {
                None if depth == 0 => return Ok(entries),
                None => return Err(fail(self.last_line(), "a `]` is missing")),
                Some((_, Token::Close)) if depth > 0 => return Ok(entries),
                Some((line, Token::Word(key))) => (*line, core::mem::take(key)),
                Some((line, _)) => return Err(fail(*line, "here should be a key")),
            };
            self.at += 1;
            let value = match self.tokens.get_mut(self.at) {
                Some((_, Token::Word(text))) => Value::Text(core::mem::take(text)),
                Some((line, Token::Open)) if depth == DEPTH => {
                    return Err(fail(*line, "lists are nested too deep"));
                }
                Some((_, Token::Open)) => {
                    self.at += 1;
                    Value::List(self.list(depth + 1)?)
                }
                _ => return Err(fail(line, &format!("`{key}` has no value"))),
            };
            self.at += 1;
            entries.push(Entry { line, key, value });
        }
    }

    fn last_line(&self) -> usize {
        self.tokens.last().map_or(1, |(line, _)| *line)
    }
}
