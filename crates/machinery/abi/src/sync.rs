//! Definitions that the model test replaces (`tests/model.rs`): the test builds the same sources
//! with loom's atomics, which try every interleaving, and with a shorter ring.

pub(crate) use core::hint::spin_loop;
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

/// Capacity of the ring [`crate::Past`], in lines.
pub(crate) const LINES: usize = 42;
