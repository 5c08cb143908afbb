//! What tests of several crates need: programs that the build made, and programs
//! that the machine has.
//!
//! Tests build no crates and pass over nothing. What is not there is a failure that
//! says how to get it; what cannot be had on a machine is excluded by name, in
//! `scripts/exclusions`.
#![forbid(unsafe_code)]

mod address;
mod built;
mod memory;
mod orphans;
mod tools;
mod wait;

pub use address::own_address;
pub use built::{BUILD, built};
pub use memory::MemoryLimit;
pub use orphans::{OrphansTurn, orphans_turn};
pub use tools::{find, is_root, need, need_root};
pub use wait::{PATIENCE, eventually, wait_for};
