//! Packet socket on an existing interface, such as the end of a container's or virtual machine's
//! link, or a real network card.
//!
//! With `PACKET_VNET_HDR` the kernel passes trains and open checksums as a TAP device does. Without
//! that option, this is the portal of Abu Obaida and Liu, which needs one system call for each
//! frame of wire size. It is the baseline for measurements.
//!
//! This module does not use a mapped ring. `TPACKET_V3` releases a block after a millisecond at the
//! earliest, which is too late for a network with shorter delays. With trains, a ring could save
//! few system calls.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, writev};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use timeloom_fabric::Namespace;
use timeloom_net::{Frame, OffloadedWork};
use timeloom_sys::interface::index_of;
use timeloom_sys::packet::{self, FrameSelection, Group};

use crate::{Port, PortalError, ReceiveResult, TxStatus, segments, vnet};

/// Settings of a packet socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// True if trains and open checksums are passed unchanged.
    pub offloads: bool,
    /// Size of the kernel's receive buffer in bytes.
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

/// Packet socket on an interface.
#[derive(Debug)]
pub struct PacketPort {
    socket: OwnedFd,
    /// Length of the offload header before each frame in bytes; 0 without offloads.
    header: usize,
    scratch: Vec<u8>,
    /// Sum of the values of the kernel's drop counter, which every read resets to zero.
    drops: std::sync::atomic::AtomicU64,
}

impl PacketPort {
    /// Opens a socket on `interface` of `namespace`, in promiscuous mode. The kernel in that
    /// namespace still processes the frames too, so the interface should have no address.
    ///
    /// # Errors
    /// Fails if there is no such interface, or without the capability CAP_NET_RAW.
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

    /// Creates a port from a socket that another process has opened with the default options.
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
    // Without this option, the socket would receive the frames that it sends.
    packet::ignore_outgoing(&socket)?;
    if options.offloads {
        packet::use_offload_headers(&socket)?;
    }
    // The `FORCE` variant may exceed the machine's limit, if it is permitted.
    let bytes = options.buffer_bytes as usize;
    set_socket_recv_buffer_size_force(&socket, bytes)
        .or_else(|_| set_socket_recv_buffer_size(&socket, bytes))?;
    packet::join(&socket, index, Group::Everyone)?;
    packet::bind(&socket, index, FrameSelection::All)?;
    Ok(socket)
}

impl Port for PacketPort {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<ReceiveResult> {
        match vnet::receive(&self.socket, self.header, buffer) {
            // The error is reported once when the interface goes down. The interface may come up
            // again.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NETDOWN) => {
                Ok(ReceiveResult::Nothing)
            }
            other => other,
        }
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        if self.header > 0 {
            let header = vnet::write(frame.offload, frame.head);
            return self.write(&[&header, frame.head, frame.rest].map(IoSlice::new));
        }
        if frame.offload == OffloadedWork::default() {
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
