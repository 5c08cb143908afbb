//! What holds for the workspace as a whole.
#![forbid(unsafe_code)]

mod layers;
mod unsafe_code;
