//! Entry points for `timeloom-hostile` and for the fuzzers in `fuzz/`, which use that crate. They
//! decode answers and pages of other programs and check invariants. Not for other callers.

pub use crate::source::fuzzing::{foreign_page, time_server};
