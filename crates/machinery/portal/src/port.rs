//! Interface between a portal and the loop that serves it.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_net::{Frame, Offload};

/// Connection of the simulated network to the outside.
pub trait Port: Send {
    /// Returns a descriptor that becomes readable when a frame can be received.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Receives the next frame into `buffer`, from its beginning. The buffer has
    /// [`timeloom_net::LARGE`] bytes before and after the call, and may be exchanged for another of
    /// that size.
    ///
    /// # Errors
    /// Fails if the portal is gone, because its interface was removed.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received>;

    /// Sends a frame.
    ///
    /// # Errors
    /// Fails if the portal is gone.
    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus>;

    /// Sends frames that [`Port::send`] has held back for batching.
    ///
    /// # Errors
    /// Fails if the portal is gone.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns true if the port accepts trains unchanged, so that joining frames of a flow pays
    /// off.
    fn takes_trains(&self) -> bool {
        false
    }

    /// Returns the number of frames that the kernel has dropped before they could be received,
    /// where it is known.
    fn dropped_before(&self) -> u64;
}

/// Result of a receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame of this many bytes.
    Frame(usize, Offload),
    /// Data that is not a frame.
    Malformed,
    /// Nothing to receive.
    Nothing,
}

/// Result of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// The frame has been or will be delivered.
    Done,
    /// The other side did not accept the frame: its queue was full or its interface down.
    Refused,
}
