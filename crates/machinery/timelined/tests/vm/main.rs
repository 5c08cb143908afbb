//! Tests of timelines in virtual machines. Those in [`short`] need no machine; those in [`guests`]
//! use real machines, in which [`inside`] runs.

mod common;
mod guests;
mod inside;
mod machine;
mod short;
