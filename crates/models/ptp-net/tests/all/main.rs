//! Tests of PTP clocks in simulated networks.

mod signed;
mod worlds;
