//! Atomics that the latch uses. Its model (`tests/latch_model.rs`) compiles the same source with
//! loom's atomics.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, fence};
