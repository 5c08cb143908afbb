//! Secondary channel: Sync and Follow_Up stay unchanged on the wire, and each clock sends signed
//! statements about them over a second network.
//!
//! The slave reconstructs the path upstream from itself: it knows its neighbour from signed peer
//! delay, the neighbour's statement names the next clock, and so on to the grandmaster. Each
//! statement contains what the clock received (`view`) and sent (`correction_out`), so a difference
//! between two neighbours identifies the link between them. If a statement is missing, the slave
//! does not use the Follow_Up; it never uses one without statements.

mod collector;
mod statement;

pub(crate) use collector::{Collector, Outcome, Received};
pub(crate) use statement::view_of;
pub use statement::{Role, Statement};
