//! Requests to the kernel for timestamps of arrivals and departures (timestamping.rst).

use std::io;
use std::os::fd::AsFd;

use crate::option::set;

/// Source of the timestamps of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampSource {
    /// Timestamps by the kernel, on CLOCK_REALTIME. A frame is stamped when it is handed to the
    /// driver.
    Kernel,
    /// Timestamps by the network card's own clock.
    Card,
}

/// Makes the socket deliver a timestamp of every arrival, as
/// [`crate::control::ControlMessage::Arrived`].
///
/// # Errors
/// No cause of failure is known.
pub fn of_arrivals(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Makes the socket deliver timestamps of every arrival and every departure, as
/// [`crate::control::ControlMessage::Stamped`]. The timestamp of a departure arrives in the error
/// queue, with a copy of the packet, and wakes poll with POLLPRI.
///
/// # Errors
/// No cause of failure is known.
pub fn both_ways(socket: impl AsFd, by: StampSource) -> io::Result<()> {
    let flags = match by {
        StampSource::Kernel => {
            libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        }
        StampSource::Card => {
            libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE
                | libc::SOF_TIMESTAMPING_TX_HARDWARE
        }
    };
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, &1)
}
