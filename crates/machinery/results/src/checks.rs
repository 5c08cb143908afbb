//! `checks.json`: what the scenario demanded of the run, and what it got.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One `[[check]]` of the scenario after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Its name in the scenario.
    pub name: String,
    /// Whether it holds. Without meaning when it does not apply.
    pub passed: bool,
    /// What was measured.
    pub measured: Measured,
    /// What was demanded, as written: `min(grid.v680) in 2280..2330 after 25s`.
    pub expression: String,
    /// A sentence: why it passed, failed or does not apply.
    pub explanation: String,
    /// `false` when the check is not about this run (say, only about runs with
    /// the attack); it then counts neither way.
    pub applies: bool,
}

/// A measured value: a number where there is one, else words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Measured {
    /// In the unit of the expression.
    Number(f64),
    /// For people: `2294 V at 43.1 s`.
    Text(String),
    /// Nothing could be measured.
    Nothing,
}

impl From<f64> for Measured {
    /// A value that is not finite is nothing: JSON could not hold it.
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Number(value)
        } else {
            Self::Nothing
        }
    }
}

impl From<&str> for Measured {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Nothing => f.write_str("–"),
        }
    }
}
