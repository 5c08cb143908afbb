//! The secondary channel: Sync and Follow_Up stay as they are on the wire, and
//! each clock sends what it answers for over a second network.
//!
//! The slave puts the path together from itself upwards: its neighbour is known
//! from signed peer delay, the neighbour's statement names the next, and so on
//! to the grandmaster. Each statement says what the clock received (`view`) and
//! what it sent on (`correction_out`), so that a difference is found between
//! two neighbours and names their link. A missing statement means that the
//! Follow_Up is not used; it never means that it is used unprotected.

mod collector;
mod statement;

pub(crate) use collector::{Collector, Outcome, Received};
pub(crate) use statement::view_of;
pub use statement::{Role, Statement};
