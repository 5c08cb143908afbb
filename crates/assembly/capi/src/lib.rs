//! Library `libtimeloom`: the functions of `timeloom-timeline` for C, and also messages and
//! holds. The header `include/timeloom.h` specifies the interface and its guarantees. This crate
//! only translates.
//!
//! Every pointer from a caller is checked for NULL, and otherwise trusted, as in C. No panic
//! reaches the caller: these functions do not panic, and callbacks are C functions.

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
