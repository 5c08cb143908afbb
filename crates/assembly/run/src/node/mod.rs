//! A node of a run: one process that executes a share of the plan. A run on one machine has one
//! node, whose share is the whole plan.

mod name;

pub(crate) use name::NodeName;
