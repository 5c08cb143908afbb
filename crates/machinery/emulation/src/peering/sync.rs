//! Atomics that `flag.rs` uses. The model test (`tests/model.rs`) compiles `flag.rs` with loom's
//! atomics instead, which try every interleaving.

pub(crate) use core::sync::atomic::{AtomicBool, Ordering, fence};
