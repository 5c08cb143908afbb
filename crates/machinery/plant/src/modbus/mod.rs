//! A plant's signals as a Modbus/TCP device.
//!
//! The testbed's programs, unmodified, read and write registers; each request
//! that touches the plant is one exchange. The order is the point:
//!
//! 1. the request has been read from the socket: raise the pause,
//! 2. advance the plant to the frozen instant, write and read signals,
//! 3. hand the reply to the kernel, so that it lies in the guest's buffer,
//! 4. let go of the pause.
//!
//! To the program the answer therefore took no virtual time, however long the
//! plant computed. `tokio-modbus` writes the reply after its service function
//! has returned, so the service cannot end the pause; `transport` does, below
//! the library, when the reply has been flushed.
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
//! Exceptions 0x01, 0x02, 0x03 and 0x0B are found without asking the plant and
//! pause nothing (except for 0x03 when the plant itself refuses).
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
