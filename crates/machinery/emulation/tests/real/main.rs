//! Tests of real programs across a simulated network. They need root.

mod carry;
mod clocks;
mod engines;
mod messages;
mod ptp;
mod world;
