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

pub use address::{Addresses, Interface, Ipv4Interface, Ipv6Interface};
pub use core_frequency::CoreFrequency;
pub(crate) use name::reads_as_address;
pub use name::{Ready, SignalName, is_host_name};
pub use rate::BitRate;
pub use rights::{CapabilityName, User};
pub use size::Size;
pub(crate) use time::parse_duration;

/// Error for a text that is not a valid value. The message describes the syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseWordError(pub(crate) String);
