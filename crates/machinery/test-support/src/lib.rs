//! Parts shared by the tests of several crates: paths of built programs and of programs that are
//! installed on the machine, waits for events, and [`Traces`], by which a test checks that it
//! leaves no object behind. It is a dependency of tests only.
//!
//! Tests build no crates and skip nothing. A missing program is a failure whose message says how to
//! install the program. Tests that a machine cannot run are excluded by name, in
//! `scripts/exclusions`.
#![forbid(unsafe_code)]
// Conversions state their result. Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod address;
mod built;
mod memory;
mod orphans;
mod tools;
mod traces;
mod wait;

pub use address::own_address;
pub use built::{BUILD, built};
pub use memory::MemoryLimit;
pub use orphans::{OrphansTurn, orphans_turn};
pub use tools::{find, is_root, need, need_root};
pub use traces::{Traces, WholeProcess};
pub use wait::{PATIENCE, eventually, wait_for};
