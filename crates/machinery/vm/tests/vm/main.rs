//! Tests of timelines in virtual machines: without a machine in [`short`], with real ones in
//! [`guests`], inside which [`inside`] runs.

mod common;
mod guests;
mod inside;
mod machine;
mod short;
