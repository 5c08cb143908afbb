//! Conversions of the values that are written as text: reading, writing, and schema.

use std::fmt;

use serde::{Serialize, Serializer};
use timeloom_clock::counter::GovernorPolicy;
use timeloom_clock::{ParseRateError, RateError};
use timeloom_guest::{Compute, FileTimes, ProcFiles, Tsc};
use timeloom_plant::modbus::{Encoding, Table};
use timeloom_ptp::{Role, Transport};
use timeloom_timeline::protocol::TimelineScale;

use super::{
    Addresses, BitRate, CapabilityName, CoreFrequency, Ipv4Interface, Ipv6Interface,
    ParseWordError, Ready, SignalName, Size, User,
};
use crate::assertion::Assertion;
use crate::plan::{
    Condition, Discipline, EngineFailure, EngineMode, MachineProfile, Mode, Protocol, PtpAttack,
    PtpPolicy, PtpProfile, PtpSecurity, ServiceKind, Shape, TrafficKind, TrafficModel,
};
use crate::read::{Context, FromNode};
use crate::schema::text_schema;
use crate::suggest;
use crate::tree::{Node, Value};

/// Implements reading with `FromStr` from a string, and writing as that string.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl FromNode for $type {
            fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
                let text = String::from_node(node, context)?;
                text.parse()
                    .map_err(|error: ParseWordError| context.fail(&node.spot, error.to_string(), None))
                    .ok()
            }
        }
    )*};
}
as_text!(
    BitRate,
    CoreFrequency,
    Ipv4Interface,
    Ready,
    SignalName,
    Size,
    User,
    CapabilityName,
    Condition,
    Assertion
);

impl FromNode for RateError {
    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        let text = String::from_node(node, context)?;
        text.parse()
            .map_err(|error: ParseRateError| context.fail(&node.spot, error.to_string(), None))
            .ok()
    }
}

/// Represents [`RateError`] in the schema.
pub(crate) struct RateErrorText;

/// Reads one address, or a list with one address of each kind.
impl FromNode for Addresses {
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

/// Implements reading of a type whose values are keywords.
macro_rules! read_from_words {
    ($($type:ty { $($word:literal => $value:expr),* $(,)? })*) => {$(
        impl FromNode for $type {
            fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
                let text = String::from_node(node, context)?;
                match text.as_str() {
                    $($word => Some($value),)*
                    _ => {
                        let help = suggest::hint(&text, "such word", [$($word),*]);
                        context.fail(&node.spot, format!("`{text}` is not known here"), Some(help));
                        None
                    }
                }
            }
        }
    )*};
}
read_from_words! {
    Mode { "virtual" => Self::Virtual, "skip" => Self::Skip, "stepped" => Self::Stepped, "real" => Self::Real }
    Compute { "real" => Self::Real, "none" => Self::None }
    ProcFiles { "virtual" => Self::Virtual, "machine" => Self::Machine }
    FileTimes { "machine" => Self::Machine, "virtual" => Self::Virtual }
    GovernorPolicy { "ondemand" => Self::Ondemand, "schedutil" => Self::Schedutil }
    Tsc { "native" => Self::Native, "emulate" => Self::Emulate }
    MachineProfile { "exact" => Self::Exact, "fast" => Self::Fast }
    Protocol { "modbus-tcp" => Self::ModbusTcp }
    Table {
        "input" => Self::Input,
        "holding" => Self::Holding,
        "coil" => Self::Coil,
        "discrete" => Self::Discrete,
    }
    Discipline {
        "drop-tail" => Self::DropTail,
        "red" => Self::Red,
        "codel" => Self::Codel,
        "priority" => Self::Priority,
        "step" => Self::Step,
    }
    Shape {
        "dumbbell" => Self::Dumbbell,
        "star" => Self::Star,
        "tree" => Self::Tree,
        "fat-tree" => Self::FatTree,
        "ring" => Self::Ring,
        "line" => Self::Line,
        "campus" => Self::Campus,
    }
    PtpProfile {
        "p2p" => Self::PeerToPeer,
        "default" => Self::EndToEnd,
        "61850-9-3" => Self::PowerUtility,
        "c37.238-2011" => Self::Power2011,
        "c37.238-2017" => Self::Power2017,
    }
    PtpSecurity {
        "none" => Self::None,
        "ed25519" => Self::Ed25519,
        "bls" => Self::Bls,
        "bls-once" => Self::BlsOnce,
    }
    PtpPolicy { "strict" => Self::Strict, "monitor" => Self::Monitor }
    PtpAttack {
        "correction" => Self::Correction,
        "origin" => Self::Origin,
        "strip" => Self::Strip,
        "remove-hop" => Self::RemoveHop,
        "epoch" => Self::Epoch,
        "replay" => Self::Replay,
        "spoof-sync" => Self::SpoofSync,
        "delay-sync" => Self::DelaySync,
        "lie" => Self::Lie,
    }
    Transport { "l2" => Self::Layer2, "udp4" => Self::Udp4 }
    Role {
        "transparent" => Self::Transparent,
        "grandmaster" => Self::Grandmaster,
        "slave" => Self::Slave,
        "monitor" => Self::Monitor,
    }
    TrafficKind {
        "udp" => Self::Udp,
        "poisson" => Self::Poisson,
        "on-off" => Self::OnOff,
        "reno" => Self::Reno,
        "cubic" => Self::Cubic,
        "cubic-8312" => Self::Cubic8312,
        "bbr" => Self::Bbr,
        "dctcp" => Self::Dctcp,
    }
    ServiceKind {
        "echo" => Self::Echo,
        "discard" => Self::Discard,
        "source" => Self::Source,
        "http" => Self::Http,
    }
    TimelineScale { "tai" => Self::Tai, "local" => Self::Local }
    EngineMode { "free" => Self::Free, "exact" => Self::Exact }
    EngineFailure {
        "stop" => Self::Stop,
        "continue" => Self::Continue,
        "restart" => Self::Restart,
    }
    TrafficModel { "packet" => Self::Packet, "fluid" => Self::Fluid }
    Encoding {
        "bit" => Self::Bit,
        "i16" => Self::I16,
        "u16" => Self::U16,
        "i32" => Self::I32,
        "u32" => Self::U32,
        "f32" => Self::F32,
        "f64" => Self::F64,
    }
}

pub(crate) fn as_text<T: fmt::Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Writes a value as text. Must be called only if the value is present.
pub(crate) fn as_optional_text<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

text_schema!(
    BitRate,
    "BitRate",
    r"^\s*[0-9]+(\.[0-9]+)?\s*[kMG]?bit/s\s*$",
    "A bit rate: a number and bit/s, kbit/s, Mbit/s or Gbit/s, as in `100 Mbit/s`."
);
text_schema!(
    CoreFrequency,
    "CoreFrequency",
    r"^\s*[0-9]+(\.[0-9]+)?\s*[kMG]Hz\s*$",
    "A core's frequency: a number and kHz, MHz or GHz, 1 MHz to 100 GHz, as in `800 MHz`."
);
text_schema!(
    RateErrorText,
    "FrequencyError",
    r"^\s*[+-]?[0-9]+(\.[0-9]+)?\s*pp[mbt]\s*$",
    "A frequency error: a number and ppm, ppb or ppt, as in `-12.5 ppm`."
);
text_schema!(
    Ipv4Interface,
    "Ipv4Interface",
    r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$",
    "An IPv4 address with the length of its subnet's prefix, as in `10.0.0.2/24`."
);
text_schema!(
    Ipv6Interface,
    "Ipv6Interface",
    r"^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/[0-9]{1,3}$",
    "An IPv6 address with the length of its subnet's prefix, as in `fd00::2/64`."
);
text_schema!(
    Ready,
    "Ready",
    r"^(tcp:[0-9]+|log:.+)$",
    "`tcp:PORT` or `log:TEXT`."
);
text_schema!(
    SignalName,
    "Signal",
    r#"^[^.\s(),"]+\.[^\s(),"]+$"#,
    "A signal of a plant: `PLANT.SIGNAL`, as in `grid.bus.680.v1`."
);
text_schema!(
    User,
    "User",
    r"^([0-9]+(:[0-9]+)?|[^0-9:\s][^:\s]*)$",
    "A user of the machine: a name, `UID` or `UID:GID`."
);
text_schema!(
    CapabilityName,
    "Capability",
    r"^[a-z_]+$",
    "A capability of Linux, as capabilities(7) has it, without `cap_`: `net_bind_service`."
);
text_schema!(
    Size,
    "Size",
    r"^\s*[0-9]+\s*([KMGT]i)?B\s*$",
    "A size: a whole number and B, KiB, MiB, GiB or TiB, as in `256 MiB`."
);
text_schema!(
    Condition,
    "Condition",
    r"^\s*(no\s+)?attack\.\S+\s*$",
    "`attack.ID` or `no attack.ID`."
);
text_schema!(
    Assertion,
    "Assertion",
    r"^\s*(min|max|mean|first|last)\s*\(.+\)\s*(<=|>=|<|>|==|!=)\s*\S+",
    "min, max, mean, first or last of (PLANT.SIGNAL), one of < <= > >= == !=, a number, then optionally `from TIME` and `until TIME`."
);
