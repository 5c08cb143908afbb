//! Requests to the kernel for timestamps of arrivals and departures (timestamping.rst).

use std::io;
use std::os::fd::AsFd;

use crate::option::set;

/// Source of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Kernel: the civil clock, when a frame is handed to the driver.
    Kernel,
    /// Clock of the card.
    Card,
}

/// Requests a timestamp of every arrival, as [`crate::control::ControlMessage::Arrived`].
///
/// # Errors
/// No cause of failure is known.
pub fn of_arrivals(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Requests timestamps of every arrival and every departure, as
/// [`crate::control::ControlMessage::Stamped`]. That of a departure arrives on the error queue,
/// with a copy of the packet, and also wakes poll with POLLPRI.
///
/// # Errors
/// No cause of failure is known.
pub fn both_ways(socket: impl AsFd, by: By) -> io::Result<()> {
    let flags = match by {
        By::Kernel => {
            libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        }
        By::Card => {
            libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE
                | libc::SOF_TIMESTAMPING_TX_HARDWARE
        }
    };
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, &1)
}
