//! Modbus/TCP device whose registers are signals of a plant.
//!
//! The testbed's programs, which are not modified, read and write registers. Each request that
//! accesses the plant is one exchange, in this order:
//!
//! 1. The request has been read from the socket, and the testbed is paused.
//! 2. The plant is advanced to the frozen instant, and signals are written and read.
//! 3. The reply is passed to the kernel, and is then in the program's socket buffer.
//! 4. The pause ends.
//!
//! For the program, the reply therefore takes no virtual time, however long the plant computes.
//! `tokio-modbus` writes the reply after its service function has returned, so the service cannot
//! end the pause. The module `transport`, below the library, ends the pause when the reply has been
//! flushed.
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
//! Exceptions 0x01, 0x02, 0x03 and 0x0B are determined without the plant and cause no pause,
//! except when the plant itself refuses a request (0x03). Source: MODBUS Application Protocol
//! V1.1b3 and Messaging on TCP/IP V1.0b.

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
pub use service::{RegisterWrite, Trouble};
pub use transport::DeviceStats;
