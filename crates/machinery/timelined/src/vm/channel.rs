//! Byte channel through a port or socket whose peer may stop reading.

use parking_lot::Mutex;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use crate::vm::frames::frame;

/// Channel with a non-blocking descriptor. Any thread may send; a single thread receives.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: OwnedFd,
    sending: Mutex<()>,
}

impl Channel {
    /// Creates a channel from a bidirectional descriptor, and makes the descriptor non-blocking.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        let sending = Mutex::new(());
        Ok(Self { fd, sending })
    }

    /// Sends a whole message. Fails if the peer does not read it within [`PATIENCE`].
    pub(crate) fn send<T: Serialize>(&self, message: &T) -> io::Result<()> {
        let bytes = frame(message);
        let _alone = self.sending.lock();
        let deadline = Instant::now() + PATIENCE;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match rustix::io::write(&self.fd, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() || !self.wait(PollFlags::OUT, left)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits up to `patience` for bytes, and returns the number received: zero if there are none.
    /// An end of the stream is an error.
    pub(crate) fn receive(&self, into: &mut [u8], patience: Duration) -> io::Result<usize> {
        match rustix::io::read(&self.fd, &mut *into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => return Ok(length),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !self.wait(PollFlags::IN, patience)? {
            return Ok(0);
        }
        match rustix::io::read(&self.fd, into) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => Ok(other?),
        }
    }

    fn wait(&self, what: PollFlags, patience: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), what)];
        let patience = Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&patience)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Time after which a peer that reads nothing is considered gone.
const PATIENCE: Duration = Duration::from_secs(2);
