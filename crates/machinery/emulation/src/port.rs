//! Interface between a portal and the worker's loop that serves it.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_net::{Frame, OffloadedWork};

/// Connection between the simulated network and the outside.
pub trait Port: Send {
    /// Returns a descriptor that becomes readable when a frame can be received.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Receives the next frame into `buffer`, from its beginning. The buffer has
    /// [`timeloom_net::LARGE`] bytes before and after the call. The function may replace it by
    /// another one of that size.
    ///
    /// # Errors
    /// Fails if the port cannot be used any more, because its interface was removed.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<ReceiveResult>;

    /// Sends a frame, or holds it until [`Port::flush`].
    ///
    /// # Errors
    /// Fails if the port cannot be used any more.
    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus>;

    /// Sends the frames that [`Port::send`] has held for batching.
    ///
    /// # Errors
    /// Fails if the port cannot be used any more.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns true if the port passes trains on unchanged. Only then is it useful to join frames
    /// of a flow.
    fn takes_trains(&self) -> bool {
        false
    }

    /// Returns the number of frames that the kernel has dropped before they could be received; 0 if
    /// it is unknown.
    fn dropped_before(&self) -> u64;
}

/// Result of a receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveResult {
    /// A frame of this many bytes, with its offloads.
    Frame(usize, OffloadedWork),
    /// Data that is not a valid frame.
    Malformed,
    /// There was nothing to receive.
    Nothing,
}

/// Result of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// The frame has been delivered, or will be.
    Done,
    /// The kernel did not accept the frame, because its queue was full or the interface was down.
    Refused,
}
