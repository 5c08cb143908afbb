//! Quality of readings: intervals, statuses, stamps.

mod interval;
mod requirement;
mod stamp;
mod status;

pub use interval::Interval;
pub use requirement::{Requirement, Shortfall};
pub use stamp::{Order, OtherTimeline, Stamp, TimelineId};
pub use status::Status;
