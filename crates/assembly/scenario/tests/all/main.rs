//! Scenarios as people write them, right and wrong.

mod bad;
mod documents;
mod fuzz;
mod good;
mod sets;
mod simulated;
mod topologies;
