//! Tests of clocks against true time and against a real kernel.

mod containment;
mod estimator;
mod kernel_properties;
mod kernel_trace;
mod strictly_increasing;
