//! Text of a scenario as a tree of values with their positions.
//!
//! The text is not deserialised directly into the types of the plan. That would stop at the first
//! mistake, and a mistake in a value from the command line would be shown in the file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Report;

/// Range of bytes in one of the sources. Source 0 is the file and source `n` the nth override;
/// files that are extended follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) source: usize,
    pub(crate) span: Range<usize>,
}

/// Value and its position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Position of the value. For a table it is the position of the table's header.
    pub(crate) spot: Spot,
    /// Position of the key. For an element of a list it is the position of the value.
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
    /// Returns the kind of the value, for messages.
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
    /// Returns the child with this key or, in a list, with this index.
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

    /// Returns the position of the value at this path. A value that the file does not contain, such
    /// as a default or a missing key, has the position of the nearest table around it.
    pub(crate) fn locate<S: AsRef<str>>(&self, path: &[S]) -> Spot {
        let mut node = self;
        for key in path {
            match node.child(key.as_ref()) {
                Some(child) => node = child,
                None => break,
            }
        }
        match node.value {
            // The header or the key of a table is a better position than the table's first byte.
            Value::Table(_) if !node.key.span.is_empty() => node.key.clone(),
            _ => node.spot.clone(),
        }
    }
}

/// Returns the label of an element of a list, which is its `name` or its `id`.
pub(crate) fn label(item: &Node) -> Option<&str> {
    ["name", "id"]
        .iter()
        .find_map(|key| match &item.child(key)?.value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
}

/// Parses a file. Only the first syntax error is reported, because most others are consequences of
/// it, for example after a missing brace. The tree then lacks the values that could not be parsed.
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

/// Parses one TOML value, such as the right side of an override. All values get the position
/// `spot`. Returns `None` if the text is not TOML.
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

/// Converts the parser's tree into a [`Node`].
struct Builder<'r> {
    report: &'r mut Report,
    source: usize,
    /// Position of all values; `None` uses the positions of the parser.
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
        // The parser sorts by key, but mistakes are reported in file order.
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
