//! Client side of a timeline: the operations of QuartzV's application interface, on a page that is
//! read without a system call.
//!
//! ```no_run
//! use timeloom_clock::quality::Requirement;
//! use timeloom_time::Duration;
//! use timeloom_timeline::Timeline;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timeline = Timeline::open("plant")?;
//! let binding = timeline.bind(Requirement::within(Duration::from_us(50)))?;
//! let watch = binding.subscribe(|change| eprintln!("{change:?}"))?;
//! let written = timeline.read()?;
//! timeline.commit_wait(&written)?;     // now it is certainly in the past, everywhere
//! drop(watch);
//! # Ok(()) }
//! ```
//!
//! A program that has only the page opens it by path or descriptor. Such a program may run in a
//! container or a virtual machine, or have no access to the daemon. It can use all functions that
//! need no daemon: reading, comparing, waiting and timers.
//!
//! [`shm`] is the page, a [`protocol`] connects a program to the daemon, and [`messages`] are stamped
//! by a timeline. The daemon is in `timeloom-timelined`.
//!
//! The crate neither steers a clock nor gives real-time guarantees. A wait never ends before the
//! target instant: it lasts until the whole interval is past that instant. Its result states how
//! late it ended.

// Only pages in shared memory need it.
#![deny(unsafe_code)]

mod binding;
mod degrade;
mod error;
pub mod messages;
mod observation;
pub mod protocol;
mod reader;
mod shared_key;
#[allow(unsafe_code, reason = "memory that several processes read and write")]
pub mod shm;
mod timeline;
mod timer;
mod wait;

pub use binding::{Binding, Change, Subscription};
pub use degrade::{BadPolicy, Degradation, Mode, Policy, Reason};
pub use error::{BindError, OpenError, PastError, WaitError};
pub use observation::{Observation, observe, read};
pub use shared_key::{LEAST_KEY_BYTES, SharedKey, SharedKeyError, ShortKey, TAG_BYTES};
pub use timeline::{Event, Timeline};
pub use timer::Timer;
pub use wait::{Schedule, WaitResult};

pub use crate::protocol::{ClientError, Directory, TimelineName};
pub use crate::shm::{Reading, Refusal};
pub use timeloom_clock::Monotonic;
pub use timeloom_clock::quality::{
    Interval, Order, OtherTimeline, Requirement, Shortfall, Stamp, Status, TimelineId,
};
