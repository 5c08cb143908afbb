//! What holds for the workspace as a whole, and no single crate can hold alone.
//!
//! The tests of this crate read `cargo metadata` and the sources. They fail, with
//! the names, when a dependency points to a higher layer, when a package lies
//! outside the layers' folders, when unsafe code is where it is not expected, or
//! when a manifest names no licence. `cargo run -p timeloom-house --example picture` prints which crate
//! needs which, layer by layer.
//!
//! The library only reads the workspace. It is nobody's dependency.
#![forbid(unsafe_code)]

mod layer;
mod picture;
mod workspace;

pub use layer::Layer;
pub use picture::picture;
pub use workspace::{Dependency, Kind, Package, Root, Workspace};
