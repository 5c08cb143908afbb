//! Worlds in which true time is known, to prove containment: **for every read,
//! true time lies in the interval or the status says otherwise.**
//!
//! A [`World`] is one machine with a drifting oscillator, a timeline's
//! [`Keeper`](crate::timeline::Keeper) on it, sources behind paths that delay
//! unequally and lose, and a [`Plan`] of what goes wrong: steps, suspend,
//! migration, a dead daemon, a lying source, an unauthenticated one. It reads
//! only what a reader would have (the last published segment and what its
//! machine shows) and compares with the truth, which no part of the timeline
//! ever sees. One seed gives one world.
//!
//! Public, so that a source adapter or another keeper can be put to the same
//! proof.
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
