//! Invariants of the whole workspace, which no single crate can check.
//!
//! The tests of this crate read the output of `cargo metadata` and the sources. A test fails, and
//! names the offenders, in these cases: a dependency points to a higher layer, a package is outside
//! of the layers' folders, a cycle of imports spans two folders of a crate, unsafe code is in an
//! unexpected crate, two crates have the same enum, a line is printed without the filter of output,
//! or a manifest states no licence. `cargo run -p timeloom-house --example picture` prints the
//! dependencies between the crates, by layer.
//!
//! The library only reads the workspace. No crate depends on it.
#![forbid(unsafe_code)]

mod layer;
mod picture;
mod workspace;

pub use layer::Layer;
pub use picture::picture;
pub use workspace::{Dependency, Kind, Package, Root, Workspace};
