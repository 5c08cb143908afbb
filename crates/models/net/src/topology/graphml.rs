//! Topologies from GraphML files, as written by networkx, yEd and the Topology Zoo.

use std::collections::HashMap;

use roxmltree::{Document, Node as Element};

use super::graph::{Entry, GraphError, Value, build, fail};
use crate::{LinkConfig, NetworkBuilder, Node};

/// Adds the nodes and edges of the first graph in a GraphML file (Brandes et al., "GraphML progress
/// report", 2001). Returns the nodes in the order of the file. The attributes are those of
/// [`mod@super::gml`]; the name of a `data` element is its key's `attr.name`. Graphs within nodes,
/// ports and hyperedges are ignored. Document type definitions are refused.
///
/// # Errors
///
/// Fails, with the number of the line, if the text is not GraphML or a value is invalid.
pub fn graphml(
    network: &mut NetworkBuilder,
    text: &str,
    link: &LinkConfig,
) -> Result<Vec<Node>, GraphError> {
    let document =
        Document::parse(text).map_err(|error| fail(error.pos().row as usize, no_xml(&error)))?;
    let lines = Lines::of(text);
    let root = document.root_element();
    let graph = children(root, "graph").next();
    let graph = graph.ok_or_else(|| fail(1, "there is no `graph` in a `graphml`"))?;
    // Names of the attributes, by the identifiers of their `key` elements.
    let mut names = HashMap::new();
    for key in children(root, "key") {
        if let (Some(id), Some(name)) = (key.attribute("id"), key.attribute("attr.name")) {
            names.insert(id, name);
        }
    }
    let mut entries = Vec::new();
    for kind in ["node", "edge"] {
        for element in children(graph, kind) {
            let line = lines.at(element);
            let mut values = Vec::new();
            for attribute in element.attributes() {
                values.push(entry(line, attribute.name(), attribute.value()));
            }
            for data in children(element, "data") {
                let key = data.attribute("key").unwrap_or_default();
                let name = names.get(key).copied().unwrap_or(key);
                let text = data.text().unwrap_or_default().trim();
                values.push(entry(lines.at(data), name, text));
            }
            entries.push(Entry {
                line,
                key: kind.to_owned(),
                value: Value::List(values),
            });
        }
    }
    let graph = Entry {
        line: lines.at(graph),
        key: "graph".to_owned(),
        value: Value::List(entries),
    };
    build(network, &graph, link)
}

fn entry(line: usize, key: &str, text: &str) -> Entry {
    Entry {
        line,
        key: key.to_owned(),
        value: Value::Text(text.to_owned()),
    }
}

/// Returns the child elements with this name, in any namespace.
fn children<'a, 'input>(
    of: Element<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Element<'a, 'input>> {
    of.children()
        .filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Offsets of all lines. The XML library counts lines from the beginning of the file each time,
/// which takes very long for a large file.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    fn at(&self, element: Element<'_, '_>) -> usize {
        self.0.partition_point(|end| *end < element.range().start) + 1
    }
}

/// Returns the description of an XML error. It does not quote the text, because a file of another
/// kind may contain secrets.
fn no_xml(error: &roxmltree::Error) -> &'static str {
    match error {
        roxmltree::Error::DtdDetected => "this XML has a DTD; remove it",
        _ => "this is not well-formed XML",
    }
}
