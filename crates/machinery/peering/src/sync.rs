//! Atomics, which the model test (`tests/model.rs`) replaces: it builds `flag.rs` with loom's
//! atomics, which try every interleaving.

pub(crate) use core::sync::atomic::{AtomicBool, Ordering, fence};
