//! Tests of plants that are accessed during a pause, and of devices that access them.

mod common;
mod modbus;
mod process;
