//! Durations as exact decimal numbers of JSON.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use timeloom_wire::TimeInterval;

/// Number of nanoseconds, written with the sixteen decimal digits that units of 2^-16 ns need.
/// Neither direction of the conversion uses a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanoseconds(pub TimeInterval);

impl Serialize for Nanoseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string())
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

/// Deserializes only from text that is in memory, such as a datagram.
impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = <&RawValue>::deserialize(deserializer)?;
        number.get().parse().map(Self).map_err(D::Error::custom)
    }
}
