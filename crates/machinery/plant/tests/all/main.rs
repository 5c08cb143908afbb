//! Plants behind the pause wire, and devices that ask them.

mod common;
mod modbus;
mod process;
