//! What a portal is to the loop that serves it.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_net::{Frame, Offload};

/// A way in and out of the simulated network.
pub trait Port: Send {
    /// Becomes readable when there is something to receive.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// The next frame, written to `buffer` from its beginning. The buffer has
    /// [`timeloom_net::LARGE`] bytes before and after, and may be exchanged
    /// for another of that size.
    ///
    /// # Errors
    /// When the portal is gone: an interface that was removed.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received>;

    /// Sends a frame.
    ///
    /// # Errors
    /// When the portal is gone.
    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus>;

    /// Sends what [`Port::send`] has kept back to send it with others.
    ///
    /// # Errors
    /// When the portal is gone.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether it takes a train as it is, so that frames of a flow are worth joining.
    fn takes_trains(&self) -> bool {
        false
    }

    /// Frames that the kernel has dropped before they could be received, so
    /// far, where it can say so.
    fn dropped_before(&self) -> u64;
}

/// What came of trying to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame of this many bytes.
    Frame(usize, Offload),
    /// Something that is no frame.
    Malformed,
    /// Nothing is there.
    Nothing,
}

/// What came of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// The other side has it, or will have it.
    Done,
    /// The other side did not take it: its queue was full or its interface
    /// down.
    Refused,
}
