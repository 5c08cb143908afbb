//! Frequencies of processor cores.

use std::fmt;
use std::str::FromStr;

use timeloom_clock::counter::Frequency;

use super::ParseWordError;

/// Frequency of a core, such as `800 MHz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreFrequency(pub Frequency);

impl FromStr for CoreFrequency {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let parsed = text.parse().map(Self);
        parsed.map_err(|error: timeloom_clock::counter::FrequencyError| {
            ParseWordError(error.to_string())
        })
    }
}

impl fmt::Display for CoreFrequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
