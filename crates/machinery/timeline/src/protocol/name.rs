//! Names of timelines.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::TimelineId;

/// Name of a timeline: 1 to 64 characters of `A-Z a-z 0-9 _ . -`. The first one is not a dot,
/// because the name is also used for files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimelineName(String);

/// Error for a text that is not a valid name; contains the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a name of a timeline: write 1 to 64 letters, digits, `_`, `.` and `-`, no dot in \
     front",
    .0.escape_debug()
)]
pub struct BadName(pub String);

impl TimelineName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id of a timeline of this name: the 128-bit FNV-1a hash of the name's bytes.
    /// Every host uses this id unless its configuration sets another. The id is not a secret and
    /// proves nothing.
    pub fn id(&self) -> TimelineId {
        let hash = self.0.bytes().fold(FNV_OFFSET, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
        });
        TimelineId(hash)
    }
}

impl FromStr for TimelineName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let fits = (1..=64).contains(&text.len()) && !text.starts_with('.');
        if fits && text.bytes().all(good) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for TimelineName {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<TimelineName> for String {
    fn from(name: TimelineName) -> Self {
        name.0
    }
}

impl fmt::Display for TimelineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Offset basis of 128-bit FNV (RFC 9923, section 5).
const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
/// Prime of 128-bit FNV (RFC 9923, section 5).
const FNV_PRIME: u128 = (1 << 88) + 0x13b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files_in_one_directory() {
        for good in ["plant", "a", "Cell-3.east_2"] {
            assert_eq!(good.parse::<TimelineName>().unwrap().as_str(), good);
        }
        let long = "x".repeat(65);
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ü", "a\0", &long] {
            assert!(bad.parse::<TimelineName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_id_is_the_published_hash() {
        // Test vector of the FNV authors for "a".
        let a: TimelineName = "a".parse().unwrap();
        assert_eq!(a.id().0, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
