//! Timelines in virtual machines: without one in [`short`], with real ones in [`machine`],
//! in which [`inside`] runs.

mod common;
mod inside;
mod machine;
mod short;
