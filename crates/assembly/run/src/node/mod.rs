//! A node of a run: one process that executes a share of the plan. A run on one machine has one
//! node, whose share is the whole plan.

mod membership;
mod name;
mod ready_board;
mod samples;
mod user_pauses;

pub(crate) use membership::{EngineLine, EngineLines, Membership, SoleNode};
pub(crate) use name::NodeName;
pub(crate) use ready_board::ReadyBoard;
pub(crate) use samples::{FinalFlows, Sample, SampleCallback, SampleChannel};
pub(crate) use user_pauses::UserPauses;
