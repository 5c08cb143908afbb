//! Asking the kernel for stamps of what arrives and departs (timestamping.rst).

use std::io;
use std::os::fd::AsFd;

use crate::option::set;

/// Which clock stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The kernel, by the civil clock, as it hands frames to the driver.
    Kernel,
    /// The card.
    Card,
}

/// Asks for a stamp of every arrival, as
/// [`crate::control::ControlMessage::Arrived`].
///
/// # Errors
/// None that the kernel has a reason for.
pub fn of_arrivals(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Asks for stamps of every arrival and every departure, as
/// [`crate::control::ControlMessage::Stamped`]. A departure's comes back by the
/// error queue, with a copy of what departed, and wakes poll as POLLPRI, too.
///
/// # Errors
/// None that the kernel has a reason for.
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
