//! Timelines in virtual machines: without one in [`short`], with real ones in [`guests`],
//! in which [`inside`] runs.

mod common;
mod guests;
mod inside;
mod machine;
mod short;
