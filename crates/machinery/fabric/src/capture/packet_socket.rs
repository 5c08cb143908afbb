//! Packet socket on an interface, which is read in batches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use timeloom_sys::batch::{self, Received};
use timeloom_sys::control::ControlMessage;
use timeloom_sys::packet::{self, Filter, FrameSelection};
use timeloom_sys::{interface, stamps};

use super::{Direction, stamping};

/// An open packet socket, bound to one interface.
#[derive(Debug)]
pub(super) struct PacketSocket {
    fd: OwnedFd,
}

/// A frame of a batch.
pub(super) struct RawFrame {
    pub(super) realtime_ns: Option<i64>,
    pub(super) direction: Direction,
    pub(super) bytes: Vec<u8>,
    pub(super) original_len: u32,
}

/// Buffers for one read.
pub(super) struct Batch {
    snap_len: usize,
    room: batch::Batch<BATCH>,
}

impl PacketSocket {
    /// Opens a socket on `interface` in the namespace of the calling thread.
    pub(super) fn open_here(interface: &str, buffer_bytes: usize) -> io::Result<Self> {
        let fd = packet::open()?;
        stamps::of_arrivals(&fd)?;
        // The forced variant may exceed the machine-wide limit, and needs CAP_NET_ADMIN.
        set_socket_recv_buffer_size_force(&fd, buffer_bytes)
            .or_else(|_| set_socket_recv_buffer_size(&fd, buffer_bytes))?;
        packet::keep_tags(&fd)?;
        stamping::wait_until_on();
        packet::bind(&fd, interface::index_of(interface)?, FrameSelection::All)?;
        Ok(Self { fd })
    }

    /// Stops the reception of further frames. Frames that are queued can still be read.
    pub(super) fn close_the_door(&self) -> io::Result<()> {
        packet::filter(&self.fd, Filter::None)
    }

    /// Fills `batch` with the queued frames, without blocking.
    pub(super) fn receive(&self, batch: &mut Batch) -> io::Result<()> {
        // With this flag, the kernel reports the length of the original frame and not of the
        // captured part.
        let flags = RecvFlags::TRUNC;
        batch.room.receive(&self.fd, BATCH, flags).map(drop)
    }

    /// Returns the number of frames lost since the last call.
    pub(super) fn take_drops(&self) -> io::Result<u64> {
        packet::take_drops(&self.fd)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Batch {
    pub(super) fn new(snap_len: usize) -> Self {
        Self {
            snap_len,
            room: batch::Batch::frames(snap_len),
        }
    }

    /// Returns the frames of the last read, in the order of capture.
    pub(super) fn frames(&self) -> impl Iterator<Item = RawFrame> {
        self.room
            .received()
            .map(|received| RawFrame::open(&received, self.snap_len))
    }
}

impl RawFrame {
    fn open(received: &Received<'_>, snap_len: usize) -> Self {
        let mut frame = Self {
            realtime_ns: None,
            direction: if received.is_outgoing {
                Direction::Outbound
            } else {
                Direction::Inbound
            },
            bytes: received.bytes.to_vec(),
            original_len: received.length as u32,
        };
        for message in received.messages() {
            match message {
                ControlMessage::Arrived { realtime_ns } => frame.realtime_ns = realtime_ns,
                ControlMessage::Vlan { tci, tpid } => frame.put_back(tci, tpid, snap_len),
                _ => {}
            }
        }
        frame
    }

    /// Inserts a VLAN tag at the place that it has on the wire, which is after the two addresses.
    fn put_back(&mut self, tci: u16, tpid: u16, snap_len: usize) {
        const ADDRESSES_LEN: usize = 12;
        if self.bytes.len() >= ADDRESSES_LEN {
            let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
            self.bytes
                .splice(ADDRESSES_LEN..ADDRESSES_LEN, [a, b, c, d]);
            self.bytes.truncate(snap_len);
            self.original_len += 4;
        }
    }
}

const BATCH: usize = 32;
