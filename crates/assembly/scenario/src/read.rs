//! Conversion of the tree to typed values, which continues after each mistake.
//!
//! A value that cannot be read is reported, and replaced by the default of its type, so that the
//! remaining values can be read. A plan with such a placeholder is never returned by the crate, and
//! [`crate::rules`] skips values that have been reported.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::error::Report;
use crate::plan::Plan;
use crate::suggest;
use crate::table::{Written, word_of};
use crate::tree::{Node, Spot, Value};

/// Type of a value in the file: how the value is read, written and described.
pub(crate) trait Form: Sized {
    /// Type that represents this type in the schema.
    type Schema: JsonSchema;

    /// True if a key of this type may be left out although it has no default.
    const IS_OPTIONAL: bool = false;

    /// Reads a value. The result `None` means that a mistake has been reported.
    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self>;

    /// Writes a value as [`Self::from_node`] reads it.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Returns true if the key of this value is left out.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Declares, in an implementation of [`Form`], that a type is written and described by its own
/// implementations of `Serialize` and `JsonSchema`.
macro_rules! written_by_serde {
    () => {
        type Schema = Self;

        fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serde::Serialize::serialize(self, serializer)
        }
    };
}
pub(crate) use written_by_serde;

/// Context in which values are read.
pub(crate) struct Context<'r> {
    report: &'r mut Report,
    path: Vec<String>,
    base: Option<PathBuf>,
}

impl<'r> Context<'r> {
    /// Creates a context for `file`. A relative directory is relative to the file that names it,
    /// which is `file` or a file that it extends.
    pub(crate) fn new(report: &'r mut Report, file: &Path) -> Self {
        // This fails only if the name is empty or there is no current directory.
        let base = std::path::absolute(file)
            .ok()
            .and_then(|file| file.parent().map(Path::to_path_buf))
            .or_else(|| std::env::current_dir().ok());
        Self {
            report,
            path: Vec::new(),
            base,
        }
    }

    pub(crate) fn read_root(&mut self, root: &Node) -> Plan {
        Plan::from_node(root, self).unwrap_or_default()
    }

    pub(crate) fn fail(&mut self, spot: &Spot, message: impl Into<String>, help: Option<String>) {
        self.report.add(spot.clone(), &self.path, message, help);
    }

    /// Reports that the value is not of the wanted kind.
    pub(crate) fn expected(&mut self, node: &Node, wanted: &str) {
        let key = self.path.last().cloned().unwrap_or_default();
        let message = format!("`{key}` must be {wanted}, not {}", node.value.kind());
        self.fail(&node.spot, message, None);
    }

    /// Returns a plain value of an override as it was typed. Shells remove quotes, so `env.DEBUG=1`
    /// must be accepted where a string is expected.
    fn as_typed(&self, node: &Node) -> Option<String> {
        let is_plain = !matches!(node.value, Value::List(_) | Value::Table(_));
        // Values inside a list or a table of an override have no key of their own.
        let is_whole = self.report.is_set(&node.spot) && node.key != node.spot;
        (is_plain && is_whole).then(|| self.report.text_at(&node.spot).trim().to_owned())
    }

    /// Reads a text that `T` parses.
    pub(crate) fn read_text<T>(&mut self, node: &Node) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        let text = String::from_node(node, self)?;
        text.parse()
            .map_err(|error: T::Err| self.fail(&node.spot, error.to_string(), None))
            .ok()
    }

    /// Reads one of the words by which `values` are written.
    pub(crate) fn read_word<T: Copy + Serialize>(
        &mut self,
        node: &Node,
        values: &[T],
    ) -> Option<T> {
        let text = String::from_node(node, self)?;
        let words: Vec<String> = values.iter().map(word_of).collect();
        if let Some(place) = words.iter().position(|word| *word == text) {
            return Some(values[place]);
        }
        let help = suggest::hint(&text, "such word", words.iter().map(String::as_str));
        self.fail(
            &node.spot,
            format!("`{text}` is not known here"),
            Some(help),
        );
        None
    }

    /// Makes a path of the file absolute. `spot` is its position.
    fn resolve(&mut self, given: &str, spot: &Spot) -> Option<PathBuf> {
        let read_from = self.report.directory(spot).map(Path::to_path_buf);
        let Some(base) = read_from.or_else(|| self.base.clone()) else {
            self.fail(spot, "the current directory cannot be determined", None);
            return None;
        };
        // Without the component `.`, the text is the same after it has been written and read again.
        let joined: PathBuf = base.join(given).components().collect();
        if joined.to_str().is_none() {
            let message = format!("the path `{}` is not valid UTF-8", joined.display());
            self.fail(
                spot,
                message,
                Some("move the scenario elsewhere".to_owned()),
            );
        }
        Some(joined)
    }

    fn read_at<T: Form>(&mut self, key: &str, node: &Node) -> Option<T> {
        self.path.push(key.to_owned());
        let value = T::from_node(node, self);
        self.path.pop();
        value
    }

    pub(crate) fn read_fields<T>(
        &mut self,
        node: &Node,
        noun: &'static str,
        read: impl FnOnce(&mut Fields<'_>) -> T,
    ) -> Option<T> {
        if !matches!(node.value, Value::Table(_)) {
            self.expected(node, "a table");
            return None;
        }
        let context = Context {
            report: &mut *self.report,
            path: self.path.clone(),
            base: self.base.clone(),
        };
        let mut fields = Fields {
            node,
            noun,
            context,
            known: Vec::new(),
            missing: Vec::new(),
            is_inside: false,
        };
        let value = read(&mut fields);
        fields.finish();
        Some(value)
    }
}

/// Keys of a table that is being read.
pub(crate) struct Fields<'r> {
    node: &'r Node,
    noun: &'static str,
    context: Context<'r>,
    known: Vec<&'static str>,
    missing: Vec<&'static str>,
    is_inside: bool,
}

impl Fields<'_> {
    /// Returns true if the table has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.node.child(key).is_some()
    }

    /// Reads a key without a default. A missing key is reported, unless it is optional.
    pub(crate) fn required<T: Form + Default>(&mut self, key: &'static str) -> T {
        if !T::IS_OPTIONAL && !self.has(key) {
            self.missing.push(key);
        }
        self.optional(key).unwrap_or_default()
    }

    /// Reads a key. Returns `None` if the key is missing.
    pub(crate) fn optional<T: Form>(&mut self, key: &'static str) -> Option<T> {
        self.known.push(key);
        let node = self.node.child(key)?;
        self.context.read_at(key, node)
    }

    /// Reads a key. Returns `default` if the key is missing.
    pub(crate) fn or<T: Form>(&mut self, key: &'static str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// Reads a key with `read`.
    pub(crate) fn read_with<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> T,
    ) -> T {
        read(self, key)
    }

    /// Reads a list of tables, each with `read`.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        noun: &'static str,
        mut read: impl FnMut(&mut Fields<'_>) -> T,
    ) -> Vec<T> {
        self.known.push(key);
        let Some(node) = self.node.child(key) else {
            return Vec::new();
        };
        self.context.path.push(key.to_owned());
        let items = read_list(node, &mut self.context, |node, context| {
            context.read_fields(node, noun, &mut read)
        });
        self.context.path.pop();
        items.unwrap_or_default()
    }

    /// Reads a working directory and makes it absolute. The default is the directory of the
    /// scenario file. In a container, the path is one of the container and the default is `/`.
    pub(crate) fn directory(&mut self, key: &'static str) -> PathBuf {
        if self.is_inside {
            return self.or(key, "/".to_owned()).into();
        }
        let read = self.optional(key);
        let here = self.node.key.clone();
        read.or_else(|| self.context.resolve(".", &here))
            .unwrap_or_default()
    }

    /// Declares that directories in this table are paths in a container.
    pub(crate) fn enter_container(&mut self) {
        self.is_inside = true;
    }

    /// Reports keys that were not read, and mandatory keys that are missing. A missing key and a
    /// likely misspelling of it are one mistake, not two.
    fn finish(mut self) {
        let Value::Table(entries) = &self.node.value else {
            return;
        };
        // Computed once, because a table may have thousands of unknown keys.
        let has = |known: &&&str| entries.iter().any(|(key, _)| key == **known);
        let unused: Vec<&str> = self.known.iter().filter(|it| !has(it)).copied().collect();
        for (key, node) in entries
            .iter()
            .filter(|(key, _)| !self.known.contains(&key.as_str()))
        {
            if self.context.report.is_full() {
                self.context.fail(&node.key, "", None);
                continue;
            }
            let unused = unused.iter().copied();
            let near = suggest::nearest(key, unused);
            let help = match near.or_else(|| suggest::nearest(key, self.known.iter().copied())) {
                Some(near) => {
                    self.missing.retain(|missing| *missing != near);
                    format!("did you mean `{near}`?")
                }
                None => format!("{} has: `{}`", self.noun, self.known.join("`, `")),
            };
            self.context.path.push(near.unwrap_or(key).to_owned());
            self.context.fail(
                &node.key,
                format!("unknown key `{key}` in {}", self.noun),
                Some(help),
            );
            self.context.path.pop();
        }
        for key in std::mem::take(&mut self.missing) {
            let spot = self.node.key.clone();
            self.context.path.push(key.to_owned());
            self.context
                .fail(&spot, format!("{} needs `{key}`", self.noun), None);
            self.context.path.pop();
        }
    }
}

impl<T: Form> Form for Option<T> {
    type Schema = Option<T::Schema>;
    const IS_OPTIONAL: bool = true;

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        T::from_node(node, context).map(Some)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Written).serialize(serializer)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl Form for PathBuf {
    type Schema = String;

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        // A path that cannot be read counts as given, so that its absence is not reported, too.
        let given = String::from_node(node, context).unwrap_or_default();
        context.resolve(&given, &node.spot)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

fn read_list<T>(
    node: &Node,
    context: &mut Context<'_>,
    mut read: impl FnMut(&Node, &mut Context<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Value::List(items) = &node.value else {
        let key = context.path.last().cloned().unwrap_or_default();
        let message = format!("`{key}` must be a list, not {}", node.value.kind());
        let help = match &node.value {
            // The text is most often a command line, and arguments are never passed to a shell.
            Value::Text(text) => {
                let words: Vec<&str> = text.split_whitespace().collect();
                Some(format!("write `{words:?}`"))
            }
            Value::Table(_) => Some(format!("write `[[…{key}]]` above each element")),
            _ => None,
        };
        context.fail(&node.spot, message, help);
        return None;
    };
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        context.path.push(index.to_string());
        let value = read(item, context);
        context.path.pop();
        // Reading continues, to find further mistakes. The list itself is dropped, because its
        // indices would not match those of the file.
        values.push(value);
    }
    values.into_iter().collect()
}

impl<T: Form> Form for Vec<T> {
    type Schema = Vec<T::Schema>;

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        read_list(node, context, T::from_node)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Written))
    }
}

impl Form for [String; 2] {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let names: Vec<String> = Vec::from_node(node, context)?;
        match names.try_into() {
            Ok(pair) => Some(pair),
            Err(names) => {
                let names: Vec<String> = names;
                let message = format!("a link joins two nodes, not {}", names.len());
                context.fail(
                    &node.spot,
                    message,
                    Some("as in `[\"s1\", \"s2\"]`".to_owned()),
                );
                None
            }
        }
    }
}

impl<T: Form> Form for BTreeMap<String, T> {
    type Schema = BTreeMap<String, T::Schema>;

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name, Written(value))))
    }

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            context.expected(node, "a table of names");
            return None;
        };
        let mut values = Self::new();
        for (name, node) in entries {
            if let Some(value) = context.read_at(name, node) {
                values.insert(name.clone(), value);
            }
        }
        Some(values)
    }
}

impl Form for String {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            _ => match context.as_typed(node) {
                Some(text) => text,
                None => {
                    context.expected(node, "a text in quotes");
                    return None;
                }
            },
        };
        if text.contains('\0') {
            // Arguments, variables and file names cannot contain a zero byte.
            context.fail(&node.spot, "a text cannot contain a zero byte", None);
            return None;
        }
        Some(text)
    }
}

impl Form for bool {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let Value::Flag(flag) = node.value else {
            context.expected(node, "true or false");
            return None;
        };
        Some(flag)
    }
}

impl Form for f64 {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let number = match node.value {
            Value::Decimal(number) => number,
            Value::Whole(number) => number as Self,
            _ => {
                context.expected(node, "a number");
                return None;
            }
        };
        if !number.is_finite() {
            context.fail(&node.spot, "the number must be finite", None);
            return None;
        }
        Some(number)
    }
}

/// Implements reading of integer types, each with the limits of the type.
macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl Form for $type {
            written_by_serde!();

            fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
                let Value::Whole(number) = node.value else {
                    context.expected(node, "a whole number");
                    return None;
                };
                Self::try_from(number)
                    .map_err(|_| {
                        let most = i64::try_from(Self::MAX).unwrap_or(i64::MAX);
                        let key = context.path.last().cloned().unwrap_or_default();
                        let message = format!("`{key}` must lie in 0 … {most}, and {number} does not");
                        context.fail(&node.spot, message, None);
                    })
                    .ok()
            }
        }
    )*};
}
whole_number!(u8, u16, u64);

impl Form for serde_json::Map<String, serde_json::Value> {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            context.expected(node, "a table");
            return None;
        };
        let mut map = Self::new();
        for (key, node) in entries {
            map.insert(key.clone(), context.read_at(key, node)?);
        }
        Some(map)
    }
}

impl Form for serde_json::Value {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        Some(match &node.value {
            Value::Text(text) | Value::Moment(text) => Self::from(text.clone()),
            Value::Whole(number) => Self::from(*number),
            Value::Decimal(_) => Self::from(f64::from_node(node, context)?),
            Value::Flag(flag) => Self::from(*flag),
            Value::List(_) => Self::Array(Vec::from_node(node, context)?),
            Value::Table(_) => Self::Object(serde_json::Map::from_node(node, context)?),
        })
    }
}
