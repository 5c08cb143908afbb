//! Names in scenarios: readiness conditions, signals, and hosts.

use std::fmt;
use std::str::FromStr;

use super::ParseWordError;
use crate::plan::Condition;

/// Readiness condition of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A program on the same host listens on this TCP port.
    Tcp(u16),
    /// A line of the program's output contains this text.
    Log(String),
}

impl FromStr for Ready {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        match text.split_once(':') {
            Some(("tcp", port)) => match port.parse() {
                Ok(port) if port > 0 => Ok(Self::Tcp(port)),
                _ => Err(ParseWordError(format!(
                    "`{port}` is not a TCP port: write 1 … 65535"
                ))),
            },
            Some(("log", "")) => Err(ParseWordError(
                "`log:` needs the text to wait for".to_owned(),
            )),
            Some(("log", line)) => Ok(Self::Log(line.to_owned())),
            _ => Err(ParseWordError(format!(
                "`{text}` is not a condition of readiness: write `tcp:PORT` or `log:TEXT`"
            ))),
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Log(text) => write!(f, "log:{text}"),
        }
    }
}

/// Returns true if `name` can be a host name. It must consist of labels of letters, digits, `-` and
/// `_`, separated by dots (RFC 1123, 2.1). Resolvers must not take it for an IPv4 address, as they
/// do with `10` or `0x7f`.
pub fn is_host_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label) && !reads_as_address(name)
}

/// Returns true if resolvers take `name` for an IPv4 address, and do not look it up.
pub(crate) fn reads_as_address(name: &str) -> bool {
    name.split('.').all(is_number)
}

/// Returns true if inet_aton(3) reads `text` as a number.
fn is_number(text: &str) -> bool {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    !text.is_empty()
        && match hexadecimal {
            Some(digits) => digits.chars().all(|c| c.is_ascii_hexdigit()),
            None => text.chars().all(|c| c.is_ascii_digit()),
        }
}

/// Signal of a plant, written as `PLANT.SIGNAL`. The text is split at the first dot.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalName {
    /// Name of the plant.
    pub plant: String,
    /// Name of the signal, as the plant defines it.
    pub signal: String,
}

impl FromStr for SignalName {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '(' | ')' | '"' | ',');
        match text.split_once('.') {
            Some((plant, signal))
                if !plant.is_empty() && !signal.is_empty() && text.chars().all(plain) =>
            {
                Ok(Self {
                    plant: plant.to_owned(),
                    signal: signal.to_owned(),
                })
            }
            _ => Err(ParseWordError(format!(
                "`{text}` is not a signal: write `PLANT.SIGNAL` without blanks, as in `grid.bus.680.v1`"
            ))),
        }
    }
}

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plant, self.signal)
    }
}

impl FromStr for Condition {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let mut words = text.split_whitespace();
        let parts = (words.next(), words.next(), words.next());
        let id = |word: &str| word.strip_prefix("attack.").map(str::to_owned);
        let condition = match parts {
            (Some(word), None, None) => id(word).map(Self::With),
            (Some("no"), Some(word), None) => id(word).map(Self::Without),
            _ => None,
        };
        condition.ok_or_else(|| {
            ParseWordError(format!(
                "`{text}` is not a condition: write `attack.ID` or `no attack.ID`"
            ))
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::With(id) => write!(f, "attack.{id}"),
            Self::Without(id) => write!(f, "no attack.{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_host_name;

    #[test]
    fn host_names_are_labels_and_no_addresses() {
        for name in [
            "plc", "a", "r1-0", "10a", "0xg", "core-l0", "a.b_c", "x0", "1.a",
        ] {
            assert!(is_host_name(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in [
            "", "-a", "a-", "a..b", "a b", "a\n", "10", "0x1f", "10.1", "ä", "a#", &long,
        ] {
            assert!(!is_host_name(name), "{name}");
        }
    }
}
