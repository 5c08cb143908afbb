//! Prints the dependencies between the crates, by layer.
#![forbid(unsafe_code)]

use timeloom_house::{Workspace, picture};

fn main() {
    print!("{}", picture(&Workspace::read()));
}
