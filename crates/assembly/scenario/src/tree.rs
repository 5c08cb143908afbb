//! The text as a tree of values with their positions.
//!
//! It is not deserialised directly: that stops at the first mistake, and a value from the command
//! line would point into the file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Report;

/// A range of bytes in one of the sources: 0 is the file, `n` the nth set; extended files follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) source: usize,
    pub(crate) span: Range<usize>,
}

/// A value and its position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Position of the value; for a table that of its header.
    pub(crate) spot: Spot,
    /// Position of the key; for a list element that of the value.
    pub(crate) key: Spot,
    pub(crate) value: Value,
}

/// Value of a node.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Whole(i64),
    Decimal(f64),
    Flag(bool),
    Moment(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Default for Value {
    fn default() -> Self {
        Self::Table(Vec::new())
    }
}

impl Value {
    /// Returns the kind of value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Whole(_) => "a whole number",
            Self::Decimal(_) => "a decimal number",
            Self::Flag(_) => "true or false",
            Self::Moment(_) => "a date or time",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// Returns the child with this key, or with this index in a list.
    pub(crate) fn child(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(entries) => entries
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, node)| node),
            Value::List(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        }
    }

    /// Returns the position of the value at this path. A value that the file does not contain (a
    /// default, a missing key) is located at the nearest enclosing table.
    pub(crate) fn locate<S: AsRef<str>>(&self, path: &[S]) -> Spot {
        let mut node = self;
        for key in path {
            match node.child(key.as_ref()) {
                Some(child) => node = child,
                None => break,
            }
        }
        match node.value {
            // The header or key of a table is a better position than its first byte.
            Value::Table(_) if !node.key.span.is_empty() => node.key.clone(),
            _ => node.spot.clone(),
        }
    }
}

/// Returns the label of a list element: its `name` or its `id`.
pub(crate) fn label(item: &Node) -> Option<&str> {
    ["name", "id"]
        .iter()
        .find_map(|key| match &item.child(key)?.value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
}

/// Parses a file. Only the first syntax error is reported: later ones are mostly its consequences,
/// as after a missing brace. The tree then lacks the values that could not be parsed.
pub(crate) fn parse(text: &str, source: usize, report: &mut Report) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    let first = errors
        .into_iter()
        .min_by_key(|error| error.span().map(|span| span.start));
    if let Some(error) = first {
        let span = error.span().unwrap_or(0..0);
        let message = format!("this is not valid TOML: {}", error.message());
        report.add(Spot { source, span }, &[""; 0], message, None);
    }
    let mut reader = Builder {
        report,
        source,
        fixed: None,
    };
    let span = table.span();
    let value = reader.table(table.into_inner());
    Node {
        spot: reader.spot(span),
        key: Spot::default(),
        value,
    }
}

/// Parses one TOML value, as the right side of a set; `None` if the text is not TOML. All values
/// get the position `spot`.
pub(crate) fn parse_value(text: &str, spot: &Spot, report: &mut Report) -> Option<Value> {
    let value = DeValue::parse(text).ok()?;
    Some(
        Builder {
            report,
            source: spot.source,
            fixed: Some(spot.clone()),
        }
        .value(value.span(), value.into_inner()),
    )
}

/// Copies the parser's tree into ours.
struct Builder<'r> {
    report: &'r mut Report,
    source: usize,
    /// Position of all values, if it is not the parser's.
    fixed: Option<Spot>,
}

impl Builder<'_> {
    fn spot(&self, span: Range<usize>) -> Spot {
        let source = self.source;
        self.fixed.clone().unwrap_or(Spot { source, span })
    }

    fn table(&mut self, table: DeTable<'_>) -> Value {
        let mut entries: Vec<(String, Node)> = table
            .into_iter()
            .map(|(key, value)| {
                let mut node = self.node(value);
                node.key = self.spot(key.span());
                (key.into_inner().into_owned(), node)
            })
            .collect();
        // The parser sorts by key; mistakes are reported in file order.
        entries.sort_by_key(|(_, node)| node.key.span.start);
        Value::Table(entries)
    }

    fn node(&mut self, value: Spanned<DeValue<'_>>) -> Node {
        let spot = self.spot(value.span());
        let value = self.value(value.span(), value.into_inner());
        Node {
            key: spot.clone(),
            spot,
            value,
        }
    }

    fn value(&mut self, span: Range<usize>, value: DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(moment) => Value::Moment(moment.to_string()),
            DeValue::Array(items) => {
                Value::List(items.into_iter().map(|item| self.node(item)).collect())
            }
            DeValue::Table(table) => self.table(table),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Value::Whole(number),
                    Err(_) => {
                        let message = "this number does not fit into 64 bits";
                        self.report.add(self.spot(span), &[""; 0], message, None);
                        Value::Whole(0)
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Value::Decimal(number),
                Err(_) => {
                    let message = "this is not a decimal number";
                    self.report.add(self.spot(span), &[""; 0], message, None);
                    Value::Decimal(0.0)
                }
            },
        }
    }
}
