//! Conversions of the values that are written as text: reading, writing, and schema.

use serde::{Serialize, Serializer};
use timeloom_clock::RateError;
use timeloom_clock::counter::GovernorPolicy;
use timeloom_guest::{Compute, FileTimes, ProcFiles, Tsc};
use timeloom_plant::modbus::{Encoding, Table};
use timeloom_ptp::{Role, Transport};
use timeloom_timeline::protocol::TimelineScale;

use super::{
    Addresses, BitRate, CapabilityName, CoreFrequency, Ipv4Interface, Ipv6Interface, Ready,
    SignalName, Size, User,
};
use crate::assertion::Assertion;
use crate::plan::Condition;
use crate::read::{Context, Form, written_by_serde};
use crate::schema::text_schema;
use crate::tree::{Node, Value};

/// Reads one address, or a list with one address of each kind.
impl Form for Addresses {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let read = |text: &str| text.parse::<Self>();
        if !matches!(node.value, Value::List(_)) {
            let text = String::from_node(node, context)?;
            let read = read(&text);
            return read
                .map_err(|error| context.fail(&node.spot, error.to_string(), None))
                .ok();
        }
        let mut all: Option<Self> = None;
        let texts: Vec<String> = Vec::from_node(node, context)?;
        for text in &texts {
            let next = match read(text) {
                Ok(next) => next,
                Err(error) => {
                    context.fail(&node.spot, error.to_string(), None);
                    return None;
                }
            };
            all = match all {
                None => Some(next),
                Some(before) => match before.and(next) {
                    None => {
                        let message = "a host has one address of IPv4 and one of IPv6 at most";
                        context.fail(&node.spot, message, Some(EACH_KIND.to_owned()));
                        return None;
                    }
                    both => both,
                },
            };
        }
        if all.is_none() {
            let message = "a host needs an address";
            context.fail(&node.spot, message, Some(EACH_KIND.to_owned()));
        }
        all
    }
}

const EACH_KIND: &str = "as in `[\"10.0.0.2/24\", \"fd00::2/64\"]`";

/// Writes a single address as a string, and two addresses as a list.
impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts: Vec<String> = self.texts().collect();
        match &texts[..] {
            [only] => serializer.collect_str(only),
            _ => serializer.collect_seq(texts),
        }
    }
}

impl schemars::JsonSchema for Addresses {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Addresses".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let v4 = generator.subschema_for::<Ipv4Interface>();
        let v6 = generator.subschema_for::<Ipv6Interface>();
        schemars::json_schema!({
            "description": "An address, or one of IPv4 and one of IPv6.",
            "anyOf": [
                v4, v6,
                {
                    "type": "array",
                    "items": { "anyOf": [v4, v6] },
                    "minItems": 1,
                    "maxItems": 2,
                },
            ],
        })
    }
}

/// Implements reading of enumerations whose words are declared by another crate.
macro_rules! foreign_words {
    ($($type:ty: $($value:ident),*;)*) => {$(
        impl Form for $type {
            written_by_serde!();

            fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
                context.read_word(node, &[$(Self::$value),*])
            }
        }
    )*

    /// Returns the words that are read, and those that the schema describes, for each enumeration.
    #[cfg(test)]
    fn foreign_words_read() -> Vec<[Vec<String>; 2]> {
        vec![$([
            vec![$(crate::table::word_of(&<$type>::$value)),*],
            tests::described::<$type>(),
        ]),*]
    }};
}

foreign_words! {
    Compute: Real, None;
    ProcFiles: Virtual, Machine;
    FileTimes: Machine, Virtual;
    GovernorPolicy: Ondemand, Schedutil;
    Tsc: Native, Emulate;
    Table: Input, Holding, Coil, Discrete;
    Transport: Layer2, Udp4;
    Role: Transparent, Grandmaster, Slave, Monitor;
    TimelineScale: Tai, Local;
    Encoding: Bit, I16, U16, I32, U32, F32, F64;
}

/// Declares that a type is written as a string that matches a pattern, and read with `FromStr`.
macro_rules! text {
    ($type:ident, $($schema:tt)*) => {
        text_schema!($type, $($schema)*);
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl Form for $type {
            written_by_serde!();

            fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
                context.read_text(node)
            }
        }
    };
}

text!(
    BitRate,
    "BitRate",
    r"^\s*[0-9]+(\.[0-9]+)?\s*[kMG]?bit/s\s*$",
    "A bit rate: a number and bit/s, kbit/s, Mbit/s or Gbit/s, as in `100 Mbit/s`."
);
text!(
    CoreFrequency,
    "CoreFrequency",
    r"^\s*[0-9]+(\.[0-9]+)?\s*[kMG]Hz\s*$",
    "A core's frequency: a number and kHz, MHz or GHz, 1 MHz to 100 GHz, as in `800 MHz`."
);

/// Represents [`RateError`] in the schema.
pub(crate) struct RateErrorText;

text_schema!(
    RateErrorText,
    "FrequencyError",
    r"^\s*[+-]?[0-9]+(\.[0-9]+)?\s*pp[mbt]\s*$",
    "A frequency error: a number and ppm, ppb or ppt, as in `-12.5 ppm`."
);

impl Form for RateError {
    type Schema = RateErrorText;

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        context.read_text(node)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

text!(
    Ipv4Interface,
    "Ipv4Interface",
    r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$",
    "An IPv4 address with the length of its subnet's prefix, as in `10.0.0.2/24`."
);
text!(
    Ipv6Interface,
    "Ipv6Interface",
    r"^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/[0-9]{1,3}$",
    "An IPv6 address with the length of its subnet's prefix, as in `fd00::2/64`."
);
text!(
    Ready,
    "Ready",
    r"^(tcp:[0-9]+|log:.+)$",
    "`tcp:PORT` or `log:TEXT`."
);
text!(
    SignalName,
    "Signal",
    r#"^[^.\s(),"]+\.[^\s(),"]+$"#,
    "A signal of a plant: `PLANT.SIGNAL`, as in `grid.bus.680.v1`."
);
text!(
    User,
    "User",
    r"^([0-9]+(:[0-9]+)?|[^0-9:\s][^:\s]*)$",
    "A user of the machine: a name, `UID` or `UID:GID`."
);
text!(
    CapabilityName,
    "Capability",
    r"^[a-z_]+$",
    "A capability of Linux, as capabilities(7) has it, without `cap_`: `net_bind_service`."
);
text!(
    Size,
    "Size",
    r"^\s*[0-9]+\s*([KMGT]i)?B\s*$",
    "A size: a whole number and B, KiB, MiB, GiB or TiB, as in `256 MiB`."
);
text!(
    Condition,
    "Condition",
    r"^\s*(no\s+)?attack\.\S+\s*$",
    "`attack.ID` or `no attack.ID`."
);
text!(
    Assertion,
    "Assertion",
    r"^\s*(min|max|mean|first|last)\s*\(.+\)\s*(<=|>=|<|>|==|!=)\s*\S+",
    "min, max, mean, first or last of (PLANT.SIGNAL), one of < <= > >= == !=, a number, then optionally `from TIME` and `until TIME`."
);

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::Value;

    use super::*;

    /// Returns the words in the schema of an enumeration.
    pub(super) fn described<T: JsonSchema>() -> Vec<String> {
        let schema = schemars::schema_for!(T).to_value();
        let words = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let single = words(&schema["oneOf"])
            .into_iter()
            .map(|one| one["const"].clone());
        let words = words(&schema["enum"]).into_iter().chain(single);
        words
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    }

    #[test]
    fn every_word_of_another_crate_is_read() {
        for [read, described] in foreign_words_read() {
            assert_eq!(read, described);
        }
    }
}
