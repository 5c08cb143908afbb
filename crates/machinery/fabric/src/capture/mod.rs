//! Capture of the frames on one interface.
//!
//! A packet socket delivers a copy of every frame that enters or leaves the interface, with the
//! kernel's timestamp of its passage. A dedicated thread reads the copies. Only the kernel's buffer
//! then limits how large a burst may be without losses, and losses are counted. The module uses a
//! plain socket that is read in batches instead of a mapped ring: one system call per 32 frames is
//! cheap compared with their delivery, the socket uses no memory while idle, and frames of any size
//! fit.
//!
//! This module neither writes files nor converts to virtual time; the receiver of the frames does.

mod packet_socket;
mod stamping;

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{PipeWriter, pipe};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use timeloom_sys::clock::{CivilOffset, realtime_ns};
use timeloom_time::{Duration, Instant, Wall};

use self::packet_socket::{Batch, PacketSocket};
use crate::{KernelError, Namespace};

/// A captured frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Time at which the kernel saw the frame, by the machine's monotonic clock, with an error of
    /// at most [`CaptureStatistics::clock_error`]. Inbound frames are timestamped when they arrive
    /// at the interface, and outbound ones when the link's rate limit has released them.
    pub at: Instant<Wall>,
    /// The same time by the machine's real-time clock, as the kernel reports it, in nanoseconds
    /// since 1970.
    pub realtime_ns: i64,
    /// Direction, into the interface or out of it.
    pub direction: Direction,
    /// Bytes of the frame from its destination address on, with its VLAN tag and without the frame
    /// check sequence; at most [`CaptureOptions::snap_len`] bytes.
    pub bytes: Vec<u8>,
    /// Length of the original frame in bytes.
    pub original_len: u32,
}

/// Direction of a frame at the captured interface. At a switch's port towards a station, the frames
/// that the station sends are inbound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received by the interface.
    Inbound,
    /// Sent by the interface.
    Outbound,
}

/// Options of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Number of bytes of each frame to keep, at least 64.
    pub snap_len: usize,
    /// Size in bytes of the kernel's buffer for frames that were not read yet. The kernel's
    /// bookkeeping per frame counts too, so small frames fill the buffer sooner than their length
    /// suggests.
    pub kernel_buffer_bytes: usize,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            snap_len: 65_535,
            kernel_buffer_bytes: 8 << 20,
        }
    }
}

/// Counters of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureStatistics {
    /// Number of frames delivered.
    pub delivered: u64,
    /// Number of frames lost because the kernel's buffer was full.
    pub dropped_by_kernel: u64,
    /// Largest bound so far of the error in the offset between the real-time clock, which
    /// timestamps the frames, and the monotonic clock.
    pub clock_error: Duration,
    /// Number of steps of the real-time clock. Times of frames in the batch of a step may be wrong
    /// by the step.
    pub clock_steps: u64,
    /// True if the interface went down or was removed at some point.
    pub interface_went_down: bool,
}

/// Running capture; dropping the value stops it.
///
/// The capture keeps the namespace alive, so it must be stopped before the namespace can be
/// removed.
#[derive(Debug)]
pub struct PacketCapture {
    shared: Arc<Shared>,
    /// Pipe that is closed to stop the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl PacketCapture {
    /// Captures into a channel, with the default options. The channel is unbounded, so a slow
    /// receiver costs memory but loses no frames.
    ///
    /// # Errors
    /// Fails as [`PacketCapture::start_with`] does.
    pub fn start(
        namespace: &Namespace,
        interface: &str,
    ) -> Result<(Self, Receiver<CapturedFrame>), KernelError> {
        let (sender, receiver) = channel();
        let capture = Self::start_with(
            namespace,
            interface,
            CaptureOptions::default(),
            move |frame| {
                // The receiver may have been dropped before the capture is stopped.
                let _ = sender.send(frame);
            },
        )?;
        Ok((capture, receiver))
    }

    /// Captures into `sink`, which is called on the capture's thread in the order of the frames.
    /// All frames that pass after this function has returned are captured.
    ///
    /// # Errors
    /// Fails if there is no such interface, or without CAP_NET_RAW.
    pub fn start_with(
        namespace: &Namespace,
        interface: &str,
        options: CaptureOptions,
        sink: impl FnMut(CapturedFrame) + Send + 'static,
    ) -> Result<Self, KernelError> {
        let title = format!("{interface} in `{}`", namespace.name());
        let failed = |error| KernelError::new(format!("record {title}"), error);
        let socket = namespace
            .run(|| PacketSocket::open_here(interface, options.kernel_buffer_bytes))?
            .map_err(|error| {
                failed(error).missing_if(
                    &[Errno::AFNOSUPPORT],
                    "packet sockets in the kernel (CONFIG_PACKET)",
                )
            })?;
        let (stop_reader, stop) = pipe().map_err(failed)?;
        let shared = Arc::new(Shared::new(socket));
        let worker = Arc::clone(&shared);
        let batch = Batch::new(options.snap_len.max(64));
        let thread = Builder::new()
            .name(format!("capture {interface}"))
            .spawn(move || worker.record(batch, sink, &stop_reader))
            .map_err(failed)?;
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Delivers the frames that have passed until now, and stops the capture.
    pub fn stop(mut self) -> CaptureStatistics {
        self.end();
        self.shared.statistics()
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Only the sink can panic, and its panic has been printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for PacketCapture {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Debug)]
struct Shared {
    socket: PacketSocket,
    delivered: AtomicU64,
    dropped: AtomicU64,
    clock_error_ns: AtomicU64,
    clock_steps: AtomicU64,
    went_down: AtomicBool,
}

impl Shared {
    fn new(socket: PacketSocket) -> Self {
        Self {
            socket,
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            clock_error_ns: AtomicU64::new(0),
            clock_steps: AtomicU64::new(0),
            went_down: AtomicBool::new(false),
        }
    }

    fn record(&self, mut batch: Batch, mut sink: impl FnMut(CapturedFrame), stop: &impl AsFd) {
        let mut offset = CivilOffset::measure();
        self.clock_error_ns
            .fetch_max(offset.error.as_ns().unsigned_abs(), Relaxed);
        while wait(&self.socket, stop) == Waited::ForFrames {
            self.deliver(&mut batch, &mut offset, &mut sink);
        }
        // Frames from before the stop are still in the buffer. Later frames must be excluded,
        // because the loop would not end on a busy link. If that fails, which is not expected, a
        // single batch is delivered.
        let shut = self.socket.close_the_door().is_ok();
        while self.deliver(&mut batch, &mut offset, &mut sink) && shut {}
    }

    /// Delivers one batch; returns true if the batch contained frames.
    fn deliver(
        &self,
        batch: &mut Batch,
        offset: &mut CivilOffset,
        sink: &mut impl FnMut(CapturedFrame),
    ) -> bool {
        match self.socket.receive(batch) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => return false,
            // The error is ENETDOWN, reported once per event. The interface may come up again.
            Err(_) => {
                self.went_down.store(true, Relaxed);
                return false;
            }
        }
        let now = CivilOffset::measure();
        let stepped = now.step_since(offset, Duration::ZERO);
        self.clock_steps
            .fetch_add(u64::from(stepped.is_some()), Relaxed);
        self.clock_error_ns
            .fetch_max(now.error.as_ns().unsigned_abs(), Relaxed);
        *offset = now;
        for frame in batch.frames() {
            // If the kernel's timestamp is missing, which should not happen, the present time is
            // the best estimate.
            let realtime_ns = frame.realtime_ns.unwrap_or_else(realtime_ns);
            sink(CapturedFrame {
                at: offset.to_wall(Instant::from_ns(realtime_ns)),
                realtime_ns,
                direction: frame.direction,
                bytes: frame.bytes,
                original_len: frame.original_len,
            });
            self.delivered.fetch_add(1, Relaxed);
        }
        true
    }

    fn statistics(&self) -> CaptureStatistics {
        // Reading the kernel's counter resets it, so the values are summed here.
        let fresh = self.socket.take_drops().unwrap_or(0);
        let dropped_by_kernel = self.dropped.fetch_add(fresh, Relaxed) + fresh;
        CaptureStatistics {
            delivered: self.delivered.load(Relaxed),
            dropped_by_kernel,
            clock_error: Duration::from_ns(self.clock_error_ns.load(Relaxed).cast_signed()),
            clock_steps: self.clock_steps.load(Relaxed),
            interface_went_down: self.went_down.load(Relaxed),
        }
    }
}

#[derive(PartialEq, Eq)]
enum Waited {
    ForFrames,
    ForStop,
}

fn wait(socket: &PacketSocket, stop: &impl AsFd) -> Waited {
    let mut fds = [
        PollFd::new(socket, PollFlags::IN),
        PollFd::new(stop, PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Ok(_) if !fds[1].revents().is_empty() => Waited::ForStop,
        Ok(_) | Err(Errno::INTR) => Waited::ForFrames,
        Err(errno) => panic!("poll on two open descriptors: {errno}"),
    }
}
