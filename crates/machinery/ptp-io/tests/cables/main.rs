//! Our programs and ptp4l on real cables, in namespaces. One binary, since a chain is idle most of
//! the time and several can run at once. Needs root, ptp4l and tshark.

mod attacks;
mod authenticated;
mod group;
mod interworking;
mod keys_at_work;
mod ports;
mod support;
