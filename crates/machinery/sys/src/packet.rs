//! Packet sockets, which send and receive raw frames of one interface (packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::option::{done, set};

/// Frames that a packet socket receives after it was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSelection {
    /// Frames of every Ethertype.
    All,
    /// Nothing; the socket only sends.
    Nothing,
}

/// Opens a non-blocking packet socket. It receives nothing before it is bound.
///
/// # Errors
/// Fails without CAP_NET_RAW, or on a kernel without such sockets.
pub fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
    Ok(socket?)
}

/// Binds a packet socket to the interface with the number `interface`.
///
/// # Errors
/// Fails if there is no such interface.
pub fn bind(socket: impl AsFd, interface: u32, hears: FrameSelection) -> io::Result<()> {
    let protocol = match hears {
        FrameSelection::All => libc::ETH_P_ALL as u16,
        FrameSelection::Nothing => 0,
    };
    let address = address(interface, protocol);
    // SAFETY: a complete sockaddr_ll, passed with its size.
    done(unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    })
}

/// Sends a whole frame by the interface with the number `interface`, without blocking. `ethertype`
/// is only the socket's record of the frame's Ethertype, which some filters read.
///
/// # Errors
/// Fails as sendto(2) does.
pub fn send(socket: impl AsFd, frame: &[u8], interface: u32, ethertype: u16) -> io::Result<()> {
    let address = address(interface, ethertype);
    // SAFETY: passes a buffer and an address, each with its size; both outlive the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_fd().as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    done(if sent < 0 { -1 } else { 0 })
}

fn address(interface: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Makes the kernel deliver VLAN tags, which it removes from a frame's bytes, as
/// [`crate::control::ControlMessage::Vlan`].
///
/// # Errors
/// No cause of failure is known.
pub fn keep_tags(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)
}

/// Stops the reception of frames that this machine itself sends by the interface.
///
/// # Errors
/// Fails before Linux 4.20.
pub fn ignore_outgoing(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
}

/// Puts a `struct virtio_net_hdr` before every frame, sent or received. The header states the
/// offloads (checksum, segmentation) that remain to be done.
///
/// # Errors
/// No cause of failure is known.
pub fn use_offload_headers(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
}

/// Destination addresses whose frames an interface accepts in addition to its own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All destinations (promiscuous mode).
    Everyone,
    /// This multicast address.
    Multicast([u8; 6]),
}

/// Makes the interface with the number `interface` accept the frames of `group`, until the socket
/// is closed.
///
/// # Errors
/// Fails if there is no such interface.
pub fn join(socket: impl AsFd, interface: u32, group: Group) -> io::Result<()> {
    let mut membership = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    if let Group::Multicast(address) = group {
        membership.mr_type = libc::PACKET_MR_MULTICAST as u16;
        membership.mr_alen = 6;
        membership.mr_address[..6].copy_from_slice(&address);
    }
    let option = libc::PACKET_ADD_MEMBERSHIP;
    set(socket, libc::SOL_PACKET, option, &membership)
}

/// Frames that a packet socket accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// No frames from now on. Frames already queued can still be read.
    None,
    /// Frames with this Ethertype, after the kernel has removed a VLAN tag.
    Ethertype(u16),
}

/// Sets the filter of a socket.
///
/// # Errors
/// No cause of failure is known.
pub fn filter(socket: impl AsFd, filter: Filter) -> io::Result<()> {
    let keep = |bytes| step(libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
    match filter {
        Filter::None => attach(socket, &mut [keep(0)]),
        Filter::Ethertype(ethertype) => {
            let load = step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12);
            let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            let equal = step(equal, 0, 1, ethertype.into());
            attach(socket, &mut [load, equal, keep(u32::MAX), keep(0)])
        }
    }
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

fn attach(socket: impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the option's value is a sock_fprog, passed with its size; the
    // program it points to has the stated length and outlives the call.
    done(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    })
}

/// Returns the number of frames dropped since the last call because the socket's buffer was full.
///
/// # Errors
/// No cause of failure is known.
pub fn take_drops(socket: impl AsFd) -> io::Result<u64> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the kernel writes a tpacket_stats, passed with its size.
    done(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    })?;
    Ok(statistics.tp_drops.into())
}
