//! Lines over a socket, bounded in length and in time.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The longest line of the protocol in bytes, its newline included.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// Why there is no line.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The other end is closed.
    Closed,
    /// The deadline has passed.
    TimedOut,
    /// [`MAX_LINE`] bytes without a newline.
    TooLong,
    /// The line is not UTF-8.
    NotText,
}

/// One end of the conversation.
pub(crate) struct Lines {
    stream: UnixStream,
    /// What has been received; `taken` bytes of it have been handed out.
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

    /// Sends `bytes`, which are whole lines.
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

    /// The next line, without its newline.
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

/// Time until `deadline`. Never zero, which the socket would take for "for ever".
fn left(deadline: Instant) -> Result<std::time::Duration, LineError> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(LineError::TimedOut),
    }
}

/// Tells what ends the conversation from what only interrupts it.
fn judge(error: &io::Error) -> Result<(), LineError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(LineError::TimedOut),
        // Reset or broken pipe: all that a connected local socket can say.
        _ => Err(LineError::Closed),
    }
}
