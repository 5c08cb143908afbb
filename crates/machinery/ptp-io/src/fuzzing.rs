//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`, which parse key files. Not for
//! other callers.

pub use crate::keys::fuzzing::key_file;
