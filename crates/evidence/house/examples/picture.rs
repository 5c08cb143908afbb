//! Prints which crate needs which, layer by layer.
#![forbid(unsafe_code)]

use timeloom_house::{Workspace, picture};

fn main() {
    print!("{}", picture(&Workspace::read()));
}
