//! JSON Schema of the scenario file, for editors and for `timeloom schema`. It is generated from
//! the types of the plan.

use schemars::generate::SchemaSettings;

use crate::extends;
use crate::plan::Plan;

/// Returns the JSON Schema (draft 2020-12) of a scenario file. The reader checks more than the
/// schema, which describes forms and not meaning. A file that extends another need not be complete,
/// so the schema requires hardly anything of it.
pub fn json_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut whole = generator.into_root_schema_for::<Plan>().to_value();
    let mut of_whole = |key: &str| whole.as_object_mut().and_then(|table| table.remove(key));
    let (draft, title) = (of_whole("$schema"), of_whole("title"));
    let parts = of_whole("$defs");
    serde_json::json!({
        "$schema": draft,
        "title": title,
        "$defs": parts,
        "type": "object",
        "if": { "required": [extends::KEY] },
        "then": { "properties": { extends::KEY: {
            "type": "string",
            "description": "The scenario that this one changes, relative to its directory."
        } } },
        "else": whole,
    })
}

/// Declares that a type is written as a string that matches a pattern.
macro_rules! text_schema {
    ($type:ty, $name:literal, $pattern:literal, $description:literal) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": $pattern,
                    "description": $description,
                })
            }
        }
    };
}
pub(crate) use text_schema;
