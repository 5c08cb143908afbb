//! What `timeloom-hostile` calls, and by it the fuzzers in `fuzz/`: what other programs
//! answer and publish, each with what must hold of it. Not for programs.

pub use crate::source::fuzzing::{foreign_page, time_server};
