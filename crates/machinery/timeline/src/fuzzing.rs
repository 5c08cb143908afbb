//! Entry points of `timeloom-hostile`, and by it of the fuzzers in `fuzz/`: answers and pages of
//! other programs, with their invariants. Not for programs.

pub use crate::source::fuzzing::{foreign_page, time_server};
