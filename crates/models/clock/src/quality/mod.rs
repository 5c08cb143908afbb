//! Quality of clock readings: intervals, statuses, stamps and requirements.

mod interval;
mod requirement;
mod stamp;
mod status;

pub use interval::Interval;
pub use requirement::{Requirement, Shortfall};
pub use stamp::{Order, OtherTimeline, Stamp, TimelineId};
pub use status::Status;
