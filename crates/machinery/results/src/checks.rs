//! `checks.json`: the checks of the scenario and their results.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A `[[check]]` of the scenario after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Name in the scenario.
    pub name: String,
    /// True if the check holds. Without meaning if `applies` is false.
    pub passed: bool,
    /// Measured value.
    pub measured: MeasuredValue,
    /// The check as written: `min(grid.v680) in 2280..2330 after 25s`.
    pub expression: String,
    /// Sentence that explains why the check passed, failed or does not apply.
    pub explanation: String,
    /// False if the check does not concern this run, for example if it is only for runs with the
    /// attack. The check is then ignored.
    pub applies: bool,
}

/// A measured value: a number if there is one, otherwise text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MeasuredValue {
    /// Number in the unit of the expression.
    Number(f64),
    /// Text for users, such as `2294 V at 43.1 s`.
    Text(String),
    /// No value could be measured.
    Nothing,
}

impl From<f64> for MeasuredValue {
    /// Converts a number. One that is not finite becomes [`MeasuredValue::Nothing`], because JSON
    /// cannot hold it.
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Number(value)
        } else {
            Self::Nothing
        }
    }
}

impl From<&str> for MeasuredValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for MeasuredValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Nothing => f.write_str("–"),
        }
    }
}
