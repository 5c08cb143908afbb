//! Tests of several engines for one network. (`model` is a separate test binary.)

mod codec;
mod common;
mod encryption;
mod exact;
mod fluid;
mod frames;
mod message;
mod partition;
mod peer;
mod portal;
mod small;
