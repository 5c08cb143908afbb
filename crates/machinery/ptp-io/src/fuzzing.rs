//! What `timeloom-hostile` calls, and by it the fuzzers in `fuzz/`: key files. Not for
//! programs.

pub use crate::keys::fuzzing::key_file;
