//! `libtimeloom`: the verbs of `timeloom-timeline-client` for C, messages, and holds. The interface
//! and its promises are in `include/timeloom.h`; here is nothing but translation.
//!
//! Every pointer from a caller is checked for NULL and otherwise believed, as C
//! does. No panic crosses the border: the functions below do not panic, and a
//! callback is C's.

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
