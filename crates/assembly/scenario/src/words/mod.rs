//! Values that are written as one string (`10 ms`, `100 Mbit/s`, `10.0.0.2/24`, `tcp:5000`,
//! `grid.bus.680.v1`). Each kind has its own type and parser.

mod address;
mod convert;
mod core_frequency;
mod name;
mod rate;
mod rights;
mod size;
mod time;

use std::path::PathBuf;

use timeloom_time::Duration;

pub use address::{Addresses, Interface, Ipv4Interface, Ipv6Interface};
pub(crate) use convert::{RateErrorText, as_optional_text, as_text};
pub use core_frequency::CoreFrequency;
pub(crate) use name::reads_as_address;
pub use name::{Ready, SignalName, is_host_name};
pub use rate::BitRate;
pub use rights::{CapabilityName, User};
pub use size::Size;
pub(crate) use time::{CivilText, DurationText, parse_duration, utc_as_text};

/// Error for a text that is not a valid value. The message describes the syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseWordError(pub(crate) String);

// Defaults that several tables share, as functions for serde.

pub(crate) fn one_nanosecond() -> Duration {
    Duration::from_ns(1)
}

pub(crate) fn ten_seconds() -> Duration {
    Duration::from_s(10)
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn here() -> PathBuf {
    PathBuf::from(".")
}
