//! Waking the event loop from signals and from other threads.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a program is told from outside: to stop, to read its keys again, or
/// only to look. Clones tell the same program.
#[derive(Clone, Debug)]
pub struct Wake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    reader: UnixStream,
    writer: UnixStream,
}

impl Wake {
    /// # Errors
    /// When the machine has no descriptors left.
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

    /// Ends the program's loop.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        self.nudge();
    }

    /// Has the keys read again.
    pub fn reload(&self) {
        self.0.reload.store(true, Ordering::Release);
        self.nudge();
    }

    /// For signal handlers: the flags of stop and reload, and the descriptor
    /// to write a byte to after setting one.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub fn for_signals(&self) -> io::Result<(Arc<AtomicBool>, Arc<AtomicBool>, UnixStream)> {
        Ok((
            self.0.stop.clone(),
            self.0.reload.clone(),
            self.0.writer.try_clone()?,
        ))
    }

    pub(crate) fn nudge(&self) {
        // Full means that it is awake already.
        let _ = (&self.0.writer).write(&[0]);
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }

    pub(crate) fn quiet(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0.reader).read(&mut bytes), Ok(n) if n > 0) {}
    }

    /// Whether the program is to end.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Acquire)
    }

    pub(crate) fn take_reload(&self) -> bool {
        self.0.reload.swap(false, Ordering::AcqRel)
    }
}
