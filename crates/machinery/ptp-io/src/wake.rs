//! Requests to the event loop from signal handlers and other threads.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Handle to request that a program stops, reloads its keys, or only wakes up. Clones control the
/// same program.
#[derive(Clone, Debug)]
pub struct ProgramControl(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    reader: UnixStream,
    writer: UnixStream,
}

impl ProgramControl {
    /// Creates the handle, without a program yet.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self(Arc::new(Inner {
            stop: Arc::default(),
            reload: Arc::default(),
            reader,
            writer,
        })))
    }

    /// Requests that the program ends.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        self.nudge();
    }

    /// Requests that the program reloads its keys.
    pub fn reload(&self) {
        self.0.reload.store(true, Ordering::Release);
        self.nudge();
    }

    /// Returns what signal handlers need: the flag for stop, the flag for reload, and the socket to
    /// which a byte must be written after a flag was set.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be duplicated.
    pub fn for_signals(&self) -> io::Result<(Arc<AtomicBool>, Arc<AtomicBool>, UnixStream)> {
        Ok((
            self.0.stop.clone(),
            self.0.reload.clone(),
            self.0.writer.try_clone()?,
        ))
    }

    pub(crate) fn nudge(&self) {
        // If the buffer is full, the event loop is about to wake up anyway.
        let _ = (&self.0.writer).write(&[0]);
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }

    pub(crate) fn quiet(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0.reader).read(&mut bytes), Ok(n) if n > 0) {}
    }

    /// Returns true if the program must end, because its stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Acquire)
    }

    pub(crate) fn take_reload(&self) -> bool {
        self.0.reload.swap(false, Ordering::AcqRel)
    }
}
