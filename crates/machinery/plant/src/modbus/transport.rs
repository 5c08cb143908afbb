//! Transport below `tokio-modbus`. It passes one valid frame at a time to the library, and ends the
//! pause after the reply.
//!
//! The library repeats four steps: it reads a frame, calls the service, writes the reply, and
//! flushes. The service stores its hold here ([`Connection::owe`]). The flush that follows passes
//! the whole reply to the kernel, and only then is the hold released. Three cases need care:
//!
//! - A paused guest reads nothing. If its buffer is full, the reply cannot be written during the
//!   pause. The hold is then released as soon as a write would block, and `late_replies` counts the
//!   case.
//! - If a connection ends before the flush, this transport is dropped, and the hold with it.
//! - Requests of other clients may already be in their sockets. The hold is therefore released by a
//!   task that first lets the runtime poll all sockets once. Those requests then join this pause,
//!   and do not cause another.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use timeloom_bus::Hold;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_modbus::ExceptionCode;

use super::frame::{self, Broken};

/// Counters of a device since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Number of connections accepted.
    pub accepted: u64,
    /// Number of connections closed at once because there were too many.
    pub turned_away: u64,
    /// Number of connections that are open now.
    pub open: u64,
    /// Number of connections closed because of a malformed frame.
    pub malformed: u64,
    /// Number of connections that another error ended, such as a reset.
    pub aborted: u64,
    /// Number of failed attempts to accept a connection.
    pub accept_errors: u64,
    /// Number of valid requests.
    pub requests: u64,
    /// Number of valid requests that were answered with an exception.
    pub exceptions: u64,
    /// Number of replies that could not be sent during the pause because the guest's buffer was
    /// full.
    pub late_replies: u64,
}

/// Atomic counters from which [`DeviceStats`] is made. Several threads update them.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) exceptions: AtomicU64,
    pub(crate) late_replies: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> DeviceStats {
        DeviceStats {
            accepted: self.accepted.load(Relaxed),
            turned_away: self.turned_away.load(Relaxed),
            open: self.open.load(Relaxed),
            malformed: self.malformed.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
            accept_errors: self.accept_errors.load(Relaxed),
            requests: self.requests.load(Relaxed),
            exceptions: self.exceptions.load(Relaxed),
            late_replies: self.late_replies.load(Relaxed),
        }
    }
}

/// State that the transport and the service of one connection share. The two run alternately, in
/// one task.
pub(crate) struct Connection {
    state: Mutex<Owed>,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Default)]
struct Owed {
    /// Hold that is released when the reply has been sent.
    hold: Option<Hold>,
    /// Exception with which the current frame must be answered, if its validation required one.
    verdict: Option<ExceptionCode>,
}

impl Connection {
    pub(crate) fn new(counters: Arc<Counters>) -> Arc<Self> {
        counters.open.fetch_add(1, Relaxed);
        Arc::new(Self {
            state: Mutex::default(),
            counters,
        })
    }

    /// Stores a hold, which is released after the reply.
    pub(crate) fn owe(&self, hold: Hold) {
        self.with(|owed| owed.hold = Some(hold));
    }

    /// Returns the exception with which the current frame must be answered, if its validation
    /// required one.
    pub(crate) fn verdict(&self) -> Option<ExceptionCode> {
        self.with(|owed| owed.verdict.take())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Owed) -> T) -> T {
        act(&mut self.state.lock())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counters.open.fetch_sub(1, Relaxed);
    }
}

/// Transport of one connection; see the module documentation.
pub(crate) struct Transport {
    stream: TcpStream,
    shared: Arc<Connection>,
    /// Received bytes that have not been validated yet.
    received: Vec<u8>,
    /// Frame that is being passed to the library; `passed` is the number of bytes passed so far.
    passing: Vec<u8>,
    passed: usize,
}

impl Transport {
    pub(crate) fn new(stream: TcpStream, shared: Arc<Connection>) -> Self {
        Self {
            stream,
            shared,
            received: Vec::new(),
            passing: Vec::new(),
            passed: 0,
        }
    }

    /// Moves the first received frame to `passing`. Returns false if the frame is not complete yet.
    fn next_frame(&mut self) -> Result<bool, Broken> {
        let Some(length) = frame::length(&self.received)? else {
            return Ok(false);
        };
        if self.received.len() < length {
            return Ok(false);
        }
        self.passing = self.received.drain(..length).collect();
        self.passed = 0;
        let verdict = frame::judge(&mut self.passing)?;
        self.shared.with(|owed| owed.verdict = verdict);
        Ok(true)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.passed == this.passing.len() {
            match this.next_frame() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(Broken) => {
                    this.shared.counters.malformed.fetch_add(1, Relaxed);
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
            }
            let mut bytes = [0; 1024];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.received.extend_from_slice(chunk.filled());
        }
        let rest = &this.passing[this.passed..];
        let count = rest.len().min(into.remaining());
        into.put_slice(&rest[..count]);
        this.passed += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_pending()
            && let Some(hold) = self.shared.with(|owed| owed.hold.take())
        {
            self.shared.counters.late_replies.fetch_add(1, Relaxed);
            drop(hold);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The library calls this function when its own buffer is empty. A TCP stream has no other
        // buffer, so the kernel has the whole reply now.
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if let Some(hold) = self.shared.with(|owed| owed.hold.take()) {
            tokio::spawn(async move {
                // Returns after the runtime has polled all sockets, and has queued the tasks whose
                // requests have arrived.
                tokio::task::yield_now().await;
                drop(hold);
            });
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
