//! A plant's signals as a Modbus/TCP device.
//!
//! The testbed's unmodified programs read and write registers; each request that accesses the plant
//! is one exchange, in this order:
//!
//! 1. the request has been read from the socket: the testbed is paused,
//! 2. the plant is advanced to the frozen instant, and signals are written and read,
//! 3. the reply is passed to the kernel, so that it is in the guest's socket buffer,
//! 4. the pause ends.
//!
//! For the program, the reply therefore takes no virtual time, however long the plant computes.
//! `tokio-modbus` writes the reply after its service function has returned, so the service cannot
//! end the pause; `transport`, below the library, ends it when the reply has been flushed.
//!
//! | what | answer |
//! |---|---|
//! | function other than 1–6, 15, 16, 22, 23 | exception 0x01 |
//! | address without a register; a part of a value; writing a read-only signal | 0x02 |
//! | bad quantity or byte count; a value that is no number; the plant refuses it | 0x03 |
//! | the plant failed (reported, the run should end); a value does not fit its integer register (reported) | 0x04 |
//! | another unit id than the device's | 0x0B, as a gateway does for a device that is not there: silence would cost each client its time-out |
//! | broken frame | connection closed and counted |
//!
//! Exceptions 0x01, 0x02, 0x03 and 0x0B are determined without the plant and cause no pause (except
//! for 0x03 if the plant itself refuses).
//! Source: MODBUS Application Protocol V1.1b3 and Messaging on TCP/IP V1.0b.

mod encoding;
mod frame;
pub(crate) mod fuzzing;
mod map;
mod server;
mod service;
mod transport;

pub use encoding::Encoding;
pub use map::{MapError, Point, RegisterMap, Table};
pub use server::{DeviceSpec, ModbusDevice};
pub use service::{Trouble, Written};
pub use transport::DeviceStats;
