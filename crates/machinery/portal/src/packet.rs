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

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use timeloom_fabric::Namespace;
use timeloom_net::{Frame, Offload};

use crate::port::outcome;
use crate::{Port, PortalError, Received, Sent, segments, vnet};

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

    fn write(&self, parts: &[&[u8]]) -> io::Result<Sent> {
        let parts: Vec<libc::iovec> = parts
            .iter()
            .map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            })
            .collect();
        let count = parts.len() as libc::c_int;
        // SAFETY: the kernel only reads from the parts, which are as long as
        // they say.
        let answer = unsafe { libc::writev(self.socket.as_raw_fd(), parts.as_ptr(), count) };
        match outcome(answer) {
            Ok(_) => Ok(Sent::Done),
            Err(error) => match error.raw_os_error() {
                Some(
                    libc::EAGAIN
                    | libc::ENOBUFS
                    | libc::ENOMEM
                    | libc::ENETDOWN
                    | libc::EINVAL
                    | libc::EMSGSIZE,
                ) => Ok(Sent::Refused),
                _ => Err(error),
            },
        }
    }
}

fn open(interface: &str, options: PacketOptions) -> io::Result<OwnedFd> {
    let name = CString::new(interface)?;
    // SAFETY: the name is a C string that lives until the call returns.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol none: it hears nothing before it is bound.
    // SAFETY: the call takes numbers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    outcome(fd as isize)?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // What we send ourselves would otherwise come back.
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    if options.offloads {
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    }
    // The forced form goes past the machine's limit, where that is allowed.
    let bytes = options.buffer_bytes as libc::c_int;
    if set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    }
    let membership = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the kernel reads a membership of the length given.
    outcome(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            size_of_val(&membership) as u32,
        )
    } as isize)?;
    // SAFETY: a sockaddr_ll is plain old data; zero is a value of every field.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: the kernel reads an address of the length given.
    outcome(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    } as isize)?;
    Ok(socket)
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads a number of the length given.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as u32,
        )
    };
    outcome(answer as isize).map(drop)
}

impl Port for PacketPort {
    fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received> {
        match vnet::receive(self.socket.as_raw_fd(), self.header, buffer) {
            // Said once when the interface goes down; it may come back.
            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => Ok(Received::Nothing),
            other => other,
        }
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<Sent> {
        if self.header > 0 {
            let header = vnet::write(frame.offload, frame.head.len());
            return self.write(&[&header, frame.head, frame.rest]);
        }
        if frame.offload == Offload::default() {
            return self.write(&[frame.head, frame.rest]);
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        let mut sent = Ok(Sent::Done);
        segments(frame, &mut scratch, |bytes| {
            if matches!(sent, Ok(Sent::Done)) {
                sent = self.write(&[bytes]);
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
        let mut counts = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of_val(&counts) as u32;
        // SAFETY: the kernel writes no more than the length given.
        let answer = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        let fresh = if answer == 0 {
            u64::from(counts.tp_drops)
        } else {
            0
        };
        self.drops.fetch_add(fresh, Relaxed) + fresh
    }
}
