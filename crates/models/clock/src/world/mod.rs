//! Simulated worlds in which true time is known, to test containment: **for every read, true time
//! lies in the interval or the status says otherwise.**
//!
//! A [`ClockWorld`] is one machine with a drifting oscillator, a
//! [`Estimator`](crate::timeline::Estimator) of a timeline on it, sources behind lossy paths with
//! unequal delays, and a [`WorldPlan`] of faults: steps, suspend, migration, a dead daemon, a source
//! that is wrong, an unauthenticated one. The test reads with only the data that readers have (the
//! last published segment and the machine's readings). It compares each reading with true time, to
//! which no part of the timeline has access. A seed determines a world.
//!
//! The module is public, so that an adapter for a source or another estimator can be tested in the
//! same way.
//!
//! ```
//! use timeloom_clock::world::ClockWorld;
//!
//! let mut world = ClockWorld::random(7);
//! world.run(1_000).unwrap_or_else(|violation| panic!("{violation}"));
//! println!("{:?}", world.tally());
//! ```

mod faults;
mod machine;
mod path;
mod plan;
mod source;
mod tally;
#[expect(
    clippy::module_inception,
    reason = "the world itself is what the folder is about"
)]
mod world;

pub use faults::FaultKind;
pub use machine::SimulatedMachine;
pub use path::Path;
pub use plan::WorldPlan;
pub use source::{SimulatedSource, SourceFault};
pub use tally::{ContainmentViolation, NARROW, WorldCounts};
pub use world::ClockWorld;
