//! Client side of a timeline.

mod degrade;
mod verbs;
mod wide;
