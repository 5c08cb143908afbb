//! What programs and a timeline's daemon say to each other.
#![forbid(unsafe_code)]

mod connection;
mod directory;
mod name;
pub mod packet;
mod protocol;

pub use connection::{ClientError, Connection};
pub use directory::Directory;
pub use name::{BadName, TimelineName};
pub use protocol::*;
