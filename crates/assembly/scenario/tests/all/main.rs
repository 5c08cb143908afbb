//! Tests of valid and invalid scenarios.

mod bad;
mod clocks;
mod documents;
mod engines;
mod extends;
mod fuzz;
mod good;
mod key_page;
mod sets;
mod simulated;
mod spread;
mod topologies;
mod traffic;
