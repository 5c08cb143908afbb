//! The page of all keys, `docs/scenario-keys.md`, is written from the JSON Schema, which the
//! declarations of the tables give.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use timeloom_scenario::json_schema;

const HEAD: &str = "# Keys of the scenario file

All keys of all tables of a scenario, with their types, defaults and bounds. To look up a key,
search this page for it; [scenario.md](scenario.md) explains how the tables are used together, and
which values exclude each other. `timeloom schema` prints the same content as a JSON Schema.

In the title of a table, NAME stands for a name that the scenario gives, and `[[…]]` for the
elements of a list. A key may be left out unless its default is *required*. If its default is empty
here, its meaning states the effect of leaving it out.

A test writes this page from the declarations of the tables (`crates/assembly/scenario/src/plan`).
";

/// Tables of the file in the order of the page. Other tables follow them.
const FIRST: [&str; 6] = [
    "time",
    "system",
    "network",
    "simulation",
    "placement",
    "results",
];

/// Page that is being written.
struct Page<'s> {
    definitions: &'s Map<String, Value>,
    /// Names of tables in the order of the page, each with the titles under which it occurs.
    tables: Vec<(&'s str, Vec<String>)>,
}

/// Returns the name of the definition that a schema refers to.
fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Returns the schema of a key's value, without the alternative that the key is left out.
fn present(schema: &Value) -> &Value {
    let either = schema["anyOf"].as_array();
    let is_present = |one: &&Value| one["type"] != "null";
    either
        .and_then(|all| all.iter().find(is_present))
        .unwrap_or(schema)
}

/// Returns the alternatives of a definition, each of which has properties if it is a table.
fn alternatives(definition: &Value) -> Vec<&Value> {
    let all = definition["anyOf"].as_array();
    all.map_or_else(|| vec![definition], |all| all.iter().collect())
}

fn is_table(definition: &Value) -> bool {
    alternatives(definition)
        .iter()
        .any(|one| one["properties"].is_object())
}

/// Returns the words of an enumeration with their meanings.
fn words(definition: &Value) -> Vec<(&str, String)> {
    let all = definition["oneOf"].as_array().into_iter().flatten();
    all.filter_map(|one| Some((one["const"].as_str()?, meaning(one))))
        .collect()
}

/// Returns the description of a schema as one line of a table.
fn meaning(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace('\n', " ").replace('|', "\\|")
}

/// Returns the keys of a table, those without a default first.
fn sorted(table: &Value) -> Vec<(&str, &Value)> {
    let mut keys: Vec<(&str, &Value)> = Vec::new();
    keys.extend(
        table["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.as_str(), v)),
    );
    keys.sort_by_key(|(key, _)| (!is_required(table, key), *key));
    keys
}

fn is_required(table: &Value, key: &str) -> bool {
    let required = table["required"].as_array().into_iter().flatten();
    required.clone().any(|one| one == key)
}

/// Returns the default of a key as it is written in the file; empty if the table does not give it.
fn default(table: &Value, key: &str, schema: &Value) -> String {
    match schema.get("default") {
        None if is_required(table, key) => "required".to_owned(),
        None => String::new(),
        Some(Value::Object(keys)) if !keys.is_empty() => "defaults of its keys".to_owned(),
        Some(Value::Array(_) | Value::Object(_)) => "empty".to_owned(),
        Some(value) => format!("`{value}`"),
    }
}

fn bounds(schema: &Value) -> String {
    let number = |key: &str| schema.get(key).map(ToString::to_string);
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => return format!("{least} … {most}"),
        (Some(least), None) => return format!("from {least}"),
        _ => {}
    }
    match (schema.get("const"), number("minItems"), number("maxItems")) {
        (Some(value), ..) => format!("`{value}`"),
        (_, Some(least), None) => format!("at least {least}"),
        (_, Some(least), Some(most)) if least == most => format!("exactly {least}"),
        _ => String::new(),
    }
}

/// Returns the anchor of a heading in code.
fn anchor(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    kept.collect::<String>().to_lowercase()
}

impl<'s> Page<'s> {
    /// Collects the tables that the keys of `table`, which lies at `path`, lead to.
    fn collect(&mut self, path: &[&str], table: &'s Value) {
        let mut keys = sorted(table);
        if path.is_empty() {
            let place = |key: &str| FIRST.iter().position(|first| *first == key);
            keys.sort_by_key(|(key, _)| place(key).unwrap_or(FIRST.len()));
        }
        for (key, schema) in keys {
            let schema = present(schema);
            let (inner, is_list, name) =
                match (schema.get("items"), &schema["additionalProperties"]) {
                    (Some(items), _) => (items, true, None),
                    (None, named @ Value::Object(_)) => (named, false, Some("NAME")),
                    (None, _) => (schema, false, None),
                };
            let Some(target) = target(inner) else {
                continue;
            };
            let definition = &self.definitions[target];
            if !is_table(definition) {
                continue;
            }
            let path: Vec<&str> = path.iter().copied().chain([key]).chain(name).collect();
            let title = match is_list {
                true => format!("[[{}]]", path.join(".")),
                false => format!("[{}]", path.join(".")),
            };
            match self.tables.iter_mut().find(|(known, _)| *known == target) {
                Some((_, titles)) => titles.push(title),
                None => self.tables.push((target, vec![title])),
            }
            for one in alternatives(definition) {
                self.collect(&path, one);
            }
        }
    }

    /// Returns the titles of a table.
    fn titles(&self, table: &str) -> Vec<&str> {
        let known = self.tables.iter().find(|(name, _)| *name == table);
        let titles = known.map(|(_, titles)| titles.iter().map(String::as_str));
        titles.into_iter().flatten().collect()
    }

    fn kind(&self, schema: &Value) -> String {
        let schema = present(schema);
        if let Some(name) = target(schema) {
            let definition = &self.definitions[name];
            return match self.titles(name).first() {
                Some(title) => format!("[table](#{})", anchor(title)),
                None if words(definition).is_empty() => format!("[{name}](#texts)"),
                None => format!("[{name}](#{})", anchor(name)),
            };
        }
        if let Some(items) = schema.get("items") {
            return format!("list: {}", self.kind(items));
        }
        let simple = match &schema["type"] {
            Value::Array(types) => types.iter().find(|one| *one != "null"),
            one => Some(one),
        };
        match simple.and_then(Value::as_str) {
            Some("string") => "text".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("integer") => "whole number".to_owned(),
            Some("object") => match &schema["additionalProperties"] {
                named @ Value::Object(_) => format!("by name: {}", self.kind(named)),
                _ => "table".to_owned(),
            },
            Some(other) => other.to_owned(),
            None => String::new(),
        }
    }

    fn write_keys(&self, table: &Value, text: &mut String) {
        text.push_str("\n| key | type | default | bounds | meaning |\n|---|---|---|---|---|\n");
        for (key, schema) in sorted(table) {
            let (kind, default) = (self.kind(schema), default(table, key, schema));
            let (bounds, meaning) = (bounds(schema), meaning(schema));
            let _ = writeln!(
                text,
                "| `{key}` | {kind} | {default} | {bounds} | {meaning} |"
            );
        }
    }

    fn write_table(&self, name: &str, text: &mut String) {
        let titles = self.titles(name);
        let definition = &self.definitions[name];
        let about = definition["description"].as_str().unwrap_or_default();
        let _ = write!(text, "\n## `{}`\n\n{about}\n", titles[0]);
        if titles.len() > 1 {
            text.push_str("\nThese tables have the same keys:\n\n");
        }
        for title in &titles[1..] {
            let _ = writeln!(text, "- `{title}`");
        }
        let all = alternatives(definition);
        for one in &all {
            if all.len() > 1 {
                let _ = write!(text, "\n{}\n", meaning(one));
            }
            self.write_keys(one, text);
        }
    }

    /// Writes the types that are no tables: texts, and enumerations with their words.
    fn write_types(&self, text: &mut String) {
        text.push_str("\n## Texts\n\n| type | form |\n|---|---|\n");
        let others = self.definitions.iter().filter(|(_, one)| !is_table(one));
        let (texts, enumerations): (BTreeMap<_, _>, BTreeMap<_, _>) =
            others.partition(|(_, one)| words(one).is_empty());
        for (name, definition) in texts {
            let each = alternatives(definition).into_iter();
            let each = each.filter(|one| *one != definition).map(meaning);
            let all: Vec<String> = [meaning(definition)].into_iter().chain(each).collect();
            let _ = writeln!(text, "| {name} | {} |", all.join(" ").trim());
        }
        for (name, definition) in enumerations {
            let _ = write!(text, "\n## {name}\n\n{}\n", meaning(definition));
            text.push_str("\n| word | meaning |\n|---|---|\n");
            for (word, meaning) in words(definition) {
                let _ = writeln!(text, "| `\"{word}\"` | {meaning} |");
            }
        }
    }
}

/// Returns the text of the page.
fn page() -> String {
    let schema = json_schema();
    let mut page = Page {
        definitions: schema["$defs"].as_object().expect("definitions"),
        tables: Vec::new(),
    };
    let mut root = schema["else"].clone();
    let extends = schema["then"]["properties"]
        .as_object()
        .expect("the key `extends`");
    root["properties"]
        .as_object_mut()
        .expect("keys")
        .extend(extends.clone());
    page.collect(&[], &schema["else"]);
    let mut text = HEAD.to_owned() + "\n## Top level\n";
    page.write_keys(&root, &mut text);
    for (table, _) in &page.tables {
        page.write_table(table, &mut text);
    }
    page.write_types(&mut text);
    text
}

#[test]
fn the_page_of_keys_is_that_of_the_declarations() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/scenario-keys.md"
    );
    let expected = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).expect("docs is writable");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/scenario-keys.md differs from the declarations of the tables; write it with \
         `UPDATE=1 cargo test -p timeloom-scenario --test all key_page`"
    );
}
