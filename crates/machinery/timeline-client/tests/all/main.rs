//! A program's side of a timeline.

mod verbs;
mod wide;
