//! Declaration of tables and words: one declaration of a table's keys gives its type, its reader,
//! its text, its defaults and its JSON Schema.
//!
//! ```text
//! table! {
//!     /// Description of the table.
//!     #[noun = "a link"]              // description of a table in messages
//!     #[schema = "Cable"]             // name in the schema, if it is not that of the type
//!     #[derive(Copy)]                 // in addition to Clone, Debug, Default and PartialEq
//!     pub struct Link {
//!         /// Description of a mandatory key.
//!         pub name: String,
//!         /// Description of an optional key without a default.
//!         pub unit: Option<u16>,
//!         /// Description of a key with a default, which may use the keys above.
//!         #[key = "type"]             // key, if it is not the name of the field
//!         #[within(0.0..=1.0)]        // bounds: a range, `NotEmpty` or `Only`
//!         #[read(Fields::directory)]  // special reader
//!         #[omit_if(Vec::is_empty)]   // condition under which the key is not written
//!         #[depends_on("name")]       // key that determines the default, which has no single value
//!         pub kind: Kind = Kind::Plain,
//!         /// Description of a table whose keys are also keys of this table.
//!         #[flatten(Wire)]
//!         pub wire: Wire,
//!     }
//! }
//! ```
//!
//! The attributes are given in this order. rustfmt does not format declarations; they are indented
//! like items outside of a macro.

use std::fmt::Display;
use std::ops::{RangeFrom, RangeInclusive};

use schemars::{Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::read::{Fields, Form};

/// Table of a scenario file. [`table!`] implements it.
pub(crate) trait Table: Form + Default {
    /// Description of the table in messages, such as `a link`.
    const NOUN: &'static str;

    /// Reads the keys of the table. Keys that are not read are then reported as unknown.
    fn read_table(fields: &mut Fields<'_>) -> Self;

    /// Writes the keys of the table, except those that are left out.
    fn write_keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// Describes the keys of the table.
    fn describe(keys: &mut Keys<'_>);
}

/// Value that is written in its form of the scenario file.
pub(crate) struct Written<'v, T>(pub(crate) &'v T);

impl<T: Form> Serialize for Written<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// Keys of a table, as they are described by its schema.
pub(crate) struct Keys<'g> {
    generator: &'g mut SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Keys<'_> {
    /// Adds a key with the lines of its documentation.
    pub(crate) fn add<T: Form>(&mut self, key: &str, lines: &[&str], is_required: bool) {
        let mut schema = self.generator.subschema_for::<T::Schema>();
        schema.insert("description".to_owned(), prose(lines).into());
        self.properties.insert(key.to_owned(), schema.into());
        if is_required && !T::IS_OPTIONAL {
            self.required.push(key.into());
        }
    }

    /// Sets the default of a key.
    pub(crate) fn set_default<T: Form>(&mut self, key: &str, default: &T) {
        let default = serde_json::to_value(Written(default)).ok();
        if let (Some(Value::Object(schema)), Some(default)) =
            (self.properties.get_mut(key), default)
        {
            schema.insert("default".to_owned(), default);
        }
    }

    /// Sets the bounds of a key.
    pub(crate) fn set_bounds(&mut self, key: &str, bounds: &dyn Bounds) {
        if let Some(Value::Object(schema)) = self.properties.get_mut(key) {
            bounds.describe(schema);
        }
    }
}

/// Returns the schema of a table, with the lines of its documentation.
pub(crate) fn schema_of<T: Table>(generator: &mut SchemaGenerator, lines: &[&str]) -> Schema {
    let mut keys = Keys {
        generator,
        properties: Map::new(),
        required: Vec::new(),
    };
    T::describe(&mut keys);
    let mut schema = schemars::json_schema!({
        "description": prose(lines),
        "type": "object",
        "properties": keys.properties,
        "additionalProperties": false,
    });
    if !keys.required.is_empty() {
        schema.insert("required".to_owned(), keys.required.into());
    }
    schema
}

/// Joins the lines of a documentation comment.
fn prose(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join("\n")
}

/// Bounds of a value, which the schema states and the rules check.
pub(crate) trait Bounds {
    fn describe(&self, schema: &mut Map<String, Value>);
}

impl<N: Copy + Into<Value>> Bounds for RangeInclusive<N> {
    fn describe(&self, schema: &mut Map<String, Value>) {
        schema.insert("minimum".to_owned(), (*self.start()).into());
        schema.insert("maximum".to_owned(), (*self.end()).into());
    }
}

impl<N: Copy + Into<Value>> Bounds for RangeFrom<N> {
    fn describe(&self, schema: &mut Map<String, Value>) {
        schema.insert("minimum".to_owned(), self.start.into());
    }
}

/// Formats bounds for a message, such as `0 … 1`.
pub(crate) fn span<N: Display>(bounds: &RangeInclusive<N>) -> String {
    format!("{} … {}", bounds.start(), bounds.end())
}

/// Bounds of a list that has at least one element.
pub(crate) struct NotEmpty;

impl Bounds for NotEmpty {
    fn describe(&self, schema: &mut Map<String, Value>) {
        schema.insert("minItems".to_owned(), 1.into());
    }
}

/// Bounds of a text that has only one permitted value.
pub(crate) struct Only(pub(crate) &'static str);

impl Bounds for Only {
    fn describe(&self, schema: &mut Map<String, Value>) {
        schema.insert("const".to_owned(), self.0.into());
    }
}

/// Declares a table of the scenario file, as the documentation of this module shows.
macro_rules! table {
    (
        $(#[doc = $about:literal])*
        #[noun = $noun:literal]
        $(#[schema = $schema:literal])?
        $(#[derive($($derive:ident),*)])?
        pub struct $table:ident {$(
            $(#[doc = $doc:literal])*
            $(#[key = $key:literal])?
            $(#[within($bounds:expr)])?
            $(#[read($read:expr)])?
            $(#[omit_if($omit:expr)])?
            $(#[depends_on($other:literal)])?
            $(#[flatten($part:ty)])?
            pub $field:ident: $type:ty $(= $default:expr)?,
        )*}
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, $($($derive),*)?)]
        pub struct $table {$(
            $(#[doc = $doc])*
            pub $field: $type,
        )*}

        impl Default for $table {
            fn default() -> Self {
                $(let $field: $type = $crate::table::table!(@default [$($default)?]);)*
                Self { $($field),* }
            }
        }

        impl $crate::table::Table for $table {
            const NOUN: &'static str = $noun;

            fn read_table(fields: &mut $crate::read::Fields<'_>) -> Self {
                $(let $field: $type = $crate::table::table!(
                    @read fields, $crate::table::table!(@key $field $($key)?),
                    [$($default)?] [$($read)?] [$($part)?]
                );)*
                Self { $($field),* }
            }

            fn write_keys<M: serde::ser::SerializeMap>(
                &self,
                map: &mut M,
            ) -> Result<(), M::Error> {
                $($crate::table::table!(
                    @write map, $crate::table::table!(@key $field $($key)?),
                    &self.$field, [$($omit)?] [$($part)?]
                );)*
                Ok(())
            }

            fn describe(keys: &mut $crate::table::Keys<'_>) {
                $($crate::table::table!(
                    @describe keys, $crate::table::table!(@key $field $($key)?), $type,
                    [$($doc),*] [$($default)?] [$($bounds)?] [$($omit)? $($other)?] [$($part)?]
                );)*
            }
        }

        impl $crate::read::Form for $table {
            $crate::read::written_by_serde!();

            fn from_node(
                node: &$crate::tree::Node,
                context: &mut $crate::read::Context<'_>,
            ) -> Option<Self> {
                context.read_fields(
                    node,
                    <Self as $crate::table::Table>::NOUN,
                    <Self as $crate::table::Table>::read_table,
                )
            }
        }

        impl serde::Serialize for $table {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $crate::table::Table::write_keys(self, &mut map)?;
                map.end()
            }
        }

        impl schemars::JsonSchema for $table {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $crate::table::table!(@key $table $($schema)?).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::table::schema_of::<Self>(generator, &[$($about),*])
            }
        }
    };

    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };

    (@default []) => { Default::default() };
    (@default [$default:expr]) => { $default };

    (@read $fields:ident, $key:expr, [] [] []) => { $fields.required($key) };
    (@read $fields:ident, $key:expr, [$default:expr] [] []) => { $fields.or($key, $default) };
    (@read $fields:ident, $key:expr, [$($default:expr)?] [$read:expr] []) => {
        $fields.read_with($key, $read)
    };
    (@read $fields:ident, $key:expr, [] [] [$part:ty]) => {
        <$part as $crate::table::Table>::read_table($fields)
    };

    (@write $map:ident, $key:expr, $value:expr, [] []) => {
        if !$crate::read::Form::is_absent($value) {
            $map.serialize_entry($key, &$crate::table::Written($value))?;
        }
    };
    (@write $map:ident, $key:expr, $value:expr, [$omit:expr] []) => {
        if !$omit($value) {
            $map.serialize_entry($key, &$crate::table::Written($value))?;
        }
    };
    (@write $map:ident, $key:expr, $value:expr, [] [$part:ty]) => {
        $crate::table::Table::write_keys($value, $map)?;
    };

    (@describe $keys:ident, $key:expr, $type:ty, [$($doc:expr),*] [] [$($bounds:expr)?] [] []) => {
        $keys.add::<$type>($key, &[$($doc),*], true);
        $($keys.set_bounds($key, &$bounds);)?
    };
    (
        @describe $keys:ident, $key:expr, $type:ty,
        [$($doc:expr),*] [$default:expr] [$($bounds:expr)?] [] []
    ) => {
        $keys.add::<$type>($key, &[$($doc),*], false);
        $keys.set_default::<$type>($key, &$default);
        $($keys.set_bounds($key, &$bounds);)?
    };
    (
        @describe $keys:ident, $key:expr, $type:ty,
        [$($doc:expr),*] [$default:expr] [$($bounds:expr)?] [$unstated:expr] []
    ) => {
        $keys.add::<$type>($key, &[$($doc),*], false);
        $($keys.set_bounds($key, &$bounds);)?
    };
    (@describe $keys:ident, $key:expr, $type:ty, [$($doc:expr),*] [] [] [] [$part:ty]) => {
        <$part as $crate::table::Table>::describe($keys);
    };
}
pub(crate) use table;

/// Declares an enumeration whose values are words in the scenario file. The first value is the
/// default.
macro_rules! words {
    (
        $(#[doc = $about:literal])*
        pub enum $words:ident {
            $(#[doc = $first_doc:literal])*
            $first:ident = $first_word:literal,
            $($(#[doc = $doc:literal])* $value:ident = $word:literal,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema,
        )]
        pub enum $words {
            $(#[doc = $first_doc])*
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $($(#[doc = $doc])* #[serde(rename = $word)] $value,)*
        }

        impl $words {
            /// Returns the word for this value in scenarios.
            pub const fn word(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$value => $word,)*
                }
            }
        }

        impl $crate::read::Form for $words {
            $crate::read::written_by_serde!();

            fn from_node(
                node: &$crate::tree::Node,
                context: &mut $crate::read::Context<'_>,
            ) -> Option<Self> {
                context.read_word(node, &[Self::$first, $(Self::$value),*])
            }
        }
    };
}
pub(crate) use words;

/// Returns the word by which a value of an enumeration is written.
pub(crate) fn word_of<T: Serialize>(value: &T) -> String {
    let written = serde_json::to_value(value).ok();
    let word = written.as_ref().and_then(Value::as_str);
    word.unwrap_or_default().to_owned()
}
