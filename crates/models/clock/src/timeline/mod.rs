//! Timelines: named clocks that a group of hosts shares, with the quality of
//! every reading (QuartzV, section IV).
//!
//! Division of work:
//!
//! - [`Keeper`] is the state machine of one timeline on one host. Its inputs are samples of sources
//!   and readings of the local clock; its outputs are [`Action`]s: poll this source, publish this
//!   segment, notify this binding.
//! - [`Segment`] is its published result and all that a reader needs: a line, the error bounds of
//!   true time, and the limits of their validity. **A reader derives the status itself**, from the
//!   age of the segment and from the readings of its own machine, so no good status outlives a dead
//!   keeper.
//!
//! The bounds are worst-case: they hold if the oscillator keeps its
//! [`OscillatorSpec`](crate::oscillator::OscillatorSpec), if sources err by no more than they
//! state, and if no more of them lie than [`Config::tolerated_liars`]. The statistical view of the
//! papers is additional ([`Keeper::statistical`]) and never replaces them.

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
