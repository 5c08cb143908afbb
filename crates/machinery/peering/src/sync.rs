//! What the model test replaces (`tests/model.rs`): it builds `flag.rs` with loom's
//! atomics, which try every interleaving.

pub(crate) use core::sync::atomic::{AtomicBool, Ordering, fence};
