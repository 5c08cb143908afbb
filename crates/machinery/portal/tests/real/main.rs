//! Real programs across a simulated network. Run as root.

mod carry;
mod clocks;
mod engines;
mod messages;
mod ptp;
mod world;
