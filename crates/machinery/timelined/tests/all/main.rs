//! The daemon, its sources and its outputs.

mod common;
mod daemon;
mod outputs;
mod ptp_feed;
mod real_chrony;
mod real_ptp4l;
mod sources;
