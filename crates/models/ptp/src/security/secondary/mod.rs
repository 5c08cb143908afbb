//! Secondary channel: Sync and Follow_Up stay unchanged on the wire, and each clock sends its
//! statements over a second network.
//!
//! The slave reconstructs the path upwards from itself: its neighbour is known from signed peer
//! delay, the neighbour's statement names the next, and so on to the grandmaster. Each statement
//! contains what the clock received (`view`) and sent (`correction_out`), so that a difference
//! between two neighbours identifies their link. If a statement is missing, the Follow_Up is not
//! used; it is never used unprotected.

mod collector;
mod statement;

pub(crate) use collector::{Collector, Outcome, Received};
pub(crate) use statement::view_of;
pub use statement::{Role, Statement};
