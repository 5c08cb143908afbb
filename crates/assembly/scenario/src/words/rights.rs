//! User and capabilities of a program.

use std::fmt;
use std::str::FromStr;

use timeloom_sys::account::UserName;
use timeloom_sys::rights::Capability;

use super::ParseWordError;
use crate::suggest;

/// User of the machine: a name, or `UID`, or `UID:GID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(pub UserName);

impl FromStr for User {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let name = text.parse().map(Self);
        name.map_err(|error: timeloom_sys::account::BadUserName| ParseWordError(error.to_string()))
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Capability as in capabilities(7), in lower case and without `cap_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityName(pub Capability);

impl FromStr for CapabilityName {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        text.parse().map(Self).map_err(|_| {
            let names: Vec<String> = Capability::names().collect();
            let known = names.iter().map(String::as_str);
            let bare = text.to_ascii_lowercase();
            let bare = bare.strip_prefix("cap_").unwrap_or(&bare);
            let hint = match names.iter().any(|name| name == bare) {
                true => format!("write `{bare}`"),
                false => suggest::hint(text, "such capability", known),
            };
            ParseWordError(format!("`{text}` is not a capability of Linux: {hint}"))
        })
    }
}

impl fmt::Display for CapabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
