//! PTP in simulated networks.

mod signed;
mod worlds;
