//! Where the atomics come from. The model test builds the same sources with
//! loom's, which tries every interleaving (`tests/loom.rs`).

pub(crate) use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
