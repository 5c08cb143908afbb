//! Tests of plants under a pause, and of devices that access them.

mod common;
mod modbus;
mod process;
