//! Line-based messages over a socket. Their length and the time for each call are limited.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Maximum line length of the protocol, in bytes, including the newline.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// Reason why a send or a receive failed.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The peer has closed the connection.
    Closed,
    /// The deadline of the call has passed.
    TimedOut,
    /// [`MAX_LINE`] bytes have arrived without a newline.
    TooLong,
    /// The line is not UTF-8.
    NotText,
}

/// One end of the connection.
pub(crate) struct Lines {
    stream: UnixStream,
    /// Received bytes. The first `taken` of them have already been returned to the caller.
    received: Vec<u8>,
    taken: usize,
}

impl Lines {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            received: Vec::new(),
            taken: 0,
        }
    }

    /// Sends `bytes`, which must consist of whole lines.
    pub(crate) fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), LineError> {
        while !bytes.is_empty() {
            let _ = self.stream.set_write_timeout(Some(left(deadline)?));
            match self.stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) => judge(&error)?,
            }
        }
        Ok(())
    }

    /// Returns the next line, without its newline.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<String, LineError> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let mut searched = 0;
        loop {
            let fresh = &self.received[searched..];
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                let end = searched + end;
                if end >= MAX_LINE {
                    return Err(LineError::TooLong);
                }
                self.taken = end + 1;
                let line = self.received[..end].to_vec();
                return String::from_utf8(line).map_err(|_| LineError::NotText);
            }
            searched = self.received.len();
            if searched >= MAX_LINE {
                return Err(LineError::TooLong);
            }
            let _ = self.stream.set_read_timeout(Some(left(deadline)?));
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(LineError::Closed),
                Ok(got) => self.received.extend_from_slice(&chunk[..got]),
                Err(error) => judge(&error)?,
            }
        }
    }
}

/// Returns the time until `deadline`. The result is never zero, which a socket takes as "no
/// timeout".
fn left(deadline: Instant) -> Result<std::time::Duration, LineError> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(LineError::TimedOut),
    }
}

/// Returns `Ok` if the call was only interrupted by a signal, and an error in all other cases.
fn judge(error: &io::Error) -> Result<(), LineError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(LineError::TimedOut),
        // The connection was reset or the pipe is broken; a connected local socket reports no other
        // error.
        _ => Err(LineError::Closed),
    }
}
