//! Tests of clocks and attackers in simulated worlds.

mod attacks;
mod authentication;
mod floods;
mod fuzz;
mod masters_and_delays;
mod records;
mod replays;
mod secondary;
mod synchronisation;
mod throughput;
mod transparent;
mod world;
