//! Invariants of the workspace as a whole, which no single crate can check.
//!
//! The tests of this crate read `cargo metadata` and the sources. They fail, with the names, if a
//! dependency points to a higher layer, if a package is outside the layers' folders, if unsafe code
//! is in an unexpected crate, or if a manifest names no licence. `cargo run -p timeloom-house
//! --example picture` prints the dependencies between the crates, by layer.
//!
//! The library only reads the workspace. No crate depends on it.
#![forbid(unsafe_code)]

mod layer;
mod picture;
mod workspace;

pub use layer::Layer;
pub use picture::picture;
pub use workspace::{Dependency, Kind, Package, Root, Workspace};
