//! A packet socket on an interface that is there already: a container's or a
//! virtual machine's end of a cable, or a real card.
//!
//! With `PACKET_VNET_HDR` the kernel hands over trains and open checksums as a
//! TAP device does. Without, this is the portal of Abu Obaida and Liu, one
//! system call for each frame of a wire's size: the baseline to measure.
//!
//! There is no mapped ring. `TPACKET_V3` gives its blocks out after a
//! millisecond at the earliest, which a network with shorter delays cannot
//! bear, and with trains there are few calls to be saved.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, writev};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use timeloom_fabric::Namespace;
use timeloom_net::{Frame, Offload};
use timeloom_sys::interface::index_of;
use timeloom_sys::packet::{self, Group, Hears};

use crate::{Port, PortalError, Received, TxStatus, segments, vnet};

/// How a packet socket is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// Whether trains and open checksums are taken and given as they are.
    pub offloads: bool,
    /// Bytes that the kernel may hold until they are received.
    pub buffer_bytes: u32,
}

impl Default for PacketOptions {
    fn default() -> Self {
        Self {
            offloads: true,
            buffer_bytes: 8 << 20,
        }
    }
}

/// A packet socket on an interface.
#[derive(Debug)]
pub struct PacketPort {
    socket: OwnedFd,
    /// Bytes before each frame.
    header: usize,
    scratch: Vec<u8>,
    /// The kernel's counter is set to zero when it is read.
    drops: std::sync::atomic::AtomicU64,
}

impl PacketPort {
    /// Opens one on `interface` of `namespace`, in promiscuous mode. What the
    /// kernel there would do with the frames it still does: the interface had
    /// better have no address.
    ///
    /// # Errors
    /// When there is no such interface, or without CAP_NET_RAW.
    pub fn open(
        namespace: &Namespace,
        interface: &str,
        options: PacketOptions,
    ) -> Result<Self, PortalError> {
        let failed =
            |error| PortalError::kernel(format!("open a packet socket on {interface}"), error);
        let socket = namespace
            .run(|| open(interface, options))?
            .map_err(failed)?;
        Ok(Self {
            socket,
            header: if options.offloads { vnet::LENGTH } else { 0 },
            scratch: Vec::new(),
            drops: Default::default(),
        })
    }

    /// One that another process has opened with the usual options, by its descriptor.
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self {
            socket: descriptor,
            header: vnet::LENGTH,
            scratch: Vec::new(),
            drops: Default::default(),
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<TxStatus> {
        match writev(&self.socket, parts) {
            Ok(_) => Ok(TxStatus::Done),
            Err(
                Errno::AGAIN
                | Errno::NOBUFS
                | Errno::NOMEM
                | Errno::NETDOWN
                | Errno::INVAL
                | Errno::MSGSIZE,
            ) => Ok(TxStatus::Refused),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn open(interface: &str, options: PacketOptions) -> io::Result<OwnedFd> {
    let index = index_of(interface)?;
    let socket = packet::open()?;
    // What we send ourselves would otherwise come back.
    packet::ignore_outgoing(&socket)?;
    if options.offloads {
        packet::use_offload_headers(&socket)?;
    }
    // The forced form goes past the machine's limit, where that is allowed.
    let bytes = options.buffer_bytes as usize;
    set_socket_recv_buffer_size_force(&socket, bytes)
        .or_else(|_| set_socket_recv_buffer_size(&socket, bytes))?;
    packet::join(&socket, index, Group::Everyone)?;
    packet::bind(&socket, index, Hears::All)?;
    Ok(socket)
}

impl Port for PacketPort {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received> {
        match vnet::receive(&self.socket, self.header, buffer) {
            // Said once when the interface goes down; it may come back.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NETDOWN) => {
                Ok(Received::Nothing)
            }
            other => other,
        }
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        if self.header > 0 {
            let header = vnet::write(frame.offload, frame.head);
            return self.write(&[&header, frame.head, frame.rest].map(IoSlice::new));
        }
        if frame.offload == Offload::default() {
            return self.write(&[frame.head, frame.rest].map(IoSlice::new));
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        let mut sent = Ok(TxStatus::Done);
        segments(frame, &mut scratch, |bytes| {
            if matches!(sent, Ok(TxStatus::Done)) {
                sent = self.write(&[IoSlice::new(bytes)]);
            }
        });
        self.scratch = scratch;
        sent
    }

    fn takes_trains(&self) -> bool {
        self.header > 0
    }

    fn dropped_before(&self) -> u64 {
        use std::sync::atomic::Ordering::Relaxed;
        let fresh = packet::take_drops(&self.socket).unwrap_or(0);
        self.drops.fetch_add(fresh, Relaxed) + fresh
    }
}
