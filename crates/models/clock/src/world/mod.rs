//! Simulated worlds in which true time is known, to test containment: **for every read, true time
//! lies in the interval or the status says otherwise.**
//!
//! A [`World`] is one machine with a drifting oscillator, a timeline's
//! [`Keeper`](crate::timeline::Keeper) on it, sources behind paths with unequal delays and loss,
//! and a [`Plan`] of faults: steps, suspend, migration, a dead daemon, a lying source, an
//! unauthenticated one. It uses only the data available to readers (the last published segment and
//! the machine's readings) and compares with true time, which no part of the timeline ever sees.
//! One seed gives one world.
//!
//! The module is public, so that a source adapter or another keeper can be tested in the same way.
//!
//! ```
//! use timeloom_clock::world::World;
//!
//! let mut world = World::random(7);
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

pub use faults::Fault;
pub use machine::Machine;
pub use path::Path;
pub use plan::Plan;
pub use source::{Lie, SimulatedSource};
pub use tally::{NARROW, Tally, Violation};
pub use world::World;
