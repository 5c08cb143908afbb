//! Atomics of the latch. Its model (`tests/latch_model.rs`) builds the same source with loom's.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, fence};
