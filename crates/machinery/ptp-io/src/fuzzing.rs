//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`: key files. Not for programs.

pub use crate::keys::fuzzing::key_file;
