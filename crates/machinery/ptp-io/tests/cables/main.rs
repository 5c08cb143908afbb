//! Tests of Timeloom's programs and ptp4l on virtual cables between namespaces. They are one
//! binary, since a chain is idle most of the time and several can run at once. They need root,
//! ptp4l and tshark.

mod attacks;
mod authenticated;
mod group;
mod interworking;
mod keys_at_work;
mod ports;
mod support;
