//! Graphs as parsed from files, and their conversion to networks.

use std::collections::HashMap;

use timeloom_time::Duration;
use timeloom_time::convert::saturating_u64;

use crate::{LinkConfig, NetworkBuilder, Node};

/// Error in a file with a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct GraphError {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

/// Adds the nodes and edges of a graph. Returns the nodes in the order of the file.
///
/// A node has the attributes `id`, `label` (its name; by default, the id) and `type`, which is
/// `host`, `switch` or, by default, `router`. An edge has the attributes `source` and `target`;
/// `LinkSpeedRaw` (Topology Zoo) or `bandwidth_bps`, in bits per second; `latency` (Shadow), such
/// as "10 ms"; and `packet_loss` (Shadow), from 0 to 1. If an attribute of an edge is missing, that
/// of `link` is used. Other keys are ignored.
pub(super) fn build(
    network: &mut NetworkBuilder,
    graph: &Entry,
    link: &LinkConfig,
) -> Result<Vec<Node>, GraphError> {
    let mut by_id = HashMap::new();
    let mut nodes = Vec::new();
    for entry in graph.children().filter(|entry| entry.key == "node") {
        let id = entry.need("id")?;
        let name = entry.get("label").unwrap_or(id).text();
        let node = match entry.get("type").map(Entry::text) {
            Some("host") => network.host(name),
            Some("switch") => network.switch(name),
            None | Some("router") => network.router(name),
            Some(_) => return Err(fail(entry.line, "a `type` must be host, switch or router")),
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
            link.rate_bps = saturating_u64(rate.number()?);
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

pub(super) fn fail(line: usize, message: &str) -> GraphError {
    GraphError {
        line,
        message: message.to_owned(),
    }
}

/// Key with its value, and the line on which it is.
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Value,
}

pub(super) enum Value {
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

    fn need(&self, key: &str) -> Result<&Entry, GraphError> {
        let missing = || fail(self.line, &format!("this {} has no `{key}`", self.key));
        self.get(key).ok_or_else(missing)
    }

    fn text(&self) -> &str {
        match &self.value {
            Value::Text(text) => text,
            Value::List(_) => "",
        }
    }

    fn number(&self) -> Result<f64, GraphError> {
        let parsed = self.text().parse();
        parsed.map_err(|_| fail(self.line, &format!("`{}` is not a number", self.text())))
    }
}
