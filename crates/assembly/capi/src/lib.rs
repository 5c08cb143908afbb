//! `libtimeloom`: the verbs of `timeloom-timeline-client` for C, messages, and holds. The interface
//! and its guarantees are in `include/timeloom.h`; this crate only translates.
//!
//! Every pointer from a caller is checked for NULL and otherwise trusted, as in C. No panic crosses
//! the border: the functions below do not panic, and callbacks are C functions.

mod bindings;
mod channels;
mod degradation;
mod errors;
mod holds;
mod messages;
mod timelines;
mod timers;
mod types;
mod waits;
