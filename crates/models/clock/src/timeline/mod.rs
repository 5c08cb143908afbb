//! Timelines: named clocks that a group of hosts shares, with an error bound for every reading
//! (QuartzV, section IV).
//!
//! The work is divided as follows:
//!
//! - [`Estimator`] is the state machine of one timeline on one host. Its inputs are answers of
//!   sources and readings of the local clock. Its outputs are [`EstimatorAction`]s: query this
//!   source, publish this segment, notify this binding.
//! - [`Segment`] is the estimator's published result, and all that a reader needs: a line from the
//!   core clock to the timeline, the error bounds, and the limits of their validity. **A reader
//!   derives the status itself** from the age of the segment and from the readings of its own
//!   machine, so a good status does not outlive the estimator.
//!
//! The bounds are worst-case bounds. They hold if the oscillator keeps its
//! [`OscillatorSpec`](crate::oscillator::OscillatorSpec), if the errors of sources do not exceed
//! the stated ones, and if no more than [`Config::tolerated_liars`] sources violate that. The
//! papers' statistical view is available in addition ([`Estimator::statistical`]), and does not
//! replace the bounds.

mod agree;
mod bindings;
mod bound;
mod config;
mod effort;
mod estimator;
mod exchange;
mod history;
mod local;
mod rates;
mod segment;
mod servo;
mod statistics;
mod utc;

pub use agree::agree;
pub use bindings::{BindingId, UnmetRequirement};
pub use bound::Bound;
pub use config::{Config, SourceId};
pub use effort::{PollLimits, poll_interval};
pub use estimator::{Era, Estimator, EstimatorAction};
pub use exchange::{Exchange, ExchangeRefusal};
pub use history::HistoryError;
pub use local::{Disturbance, LocalNow, WatchLimits};
pub use rates::RateBounds;
pub use segment::Segment;
pub use servo::Servo;
pub use statistics::{Statistical, Statistics};
pub use utc::{LeapSecond, UtcView};
