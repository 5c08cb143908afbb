//! Timelines: named clocks that a group of hosts shares, with the quality of
//! every reading (QuartzV, section IV).
//!
//! Who does what:
//!
//! - [`Keeper`] is the state machine of one timeline on one host. It is given
//!   samples of sources and what the local clock shows; it gives [`Action`]s:
//!   poll this source, publish this segment, tell this binding.
//! - [`Segment`] is what it publishes and all that a reader needs: a line, how
//!   far true time may be from it, and until when any of this holds. **A reader
//!   derives the status itself**, from the age of the segment and from what its
//!   own machine shows, so nothing good outlives a dead keeper.
//!
//! The bounds are worst-case: they hold when the oscillator keeps its
//! [`OscillatorSpec`](crate::oscillator::OscillatorSpec), when sources err by no
//! more than they state, and when no more of them lie than
//! [`Config::tolerated_liars`]. The statistical view of the papers is beside
//! them ([`Keeper::statistical`]), never in their place.

mod agree;
mod bindings;
mod bound;
mod config;
mod effort;
mod exchange;
mod history;
mod keeper;
mod local;
mod rates;
mod segment;
mod servo;
mod statistics;
mod utc;

pub use agree::agree;
pub use bindings::{BindingId, Impossible};
pub use bound::Bound;
pub use config::{Config, SourceId};
pub use effort::{PollLimits, poll_interval};
pub use exchange::{Exchange, Refused};
pub use history::PastError;
pub use keeper::{Action, Era, Keeper};
pub use local::{Disturbance, LocalNow, WatchLimits};
pub use rates::RateBounds;
pub use segment::Segment;
pub use servo::Servo;
pub use statistics::{Statistical, Statistics};
pub use utc::{LeapSecond, UtcView};
