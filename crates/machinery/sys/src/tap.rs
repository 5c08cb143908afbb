//! TAP devices: Ethernet interfaces whose frames a program reads from and writes to a file
//! (tuntap.rst).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::interface::{c_name, request};
use crate::option::done;

/// Creates the TAP device `interface` in the calling thread's network namespace. The device is
/// removed when the returned file is closed. Reads and writes of the file never block.
///
/// With `offloads`, every frame, read or written, has a `struct virtio_net_hdr` before it. The
/// kernel then passes frames with unfinished checksums and TCP trains, and UDP trains where it can
/// (Linux 6.2).
///
/// # Errors
/// Fails without `/dev/net/tun`, without CAP_NET_ADMIN, or if the name is taken.
pub fn create(interface: &str, offloads: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = request(&c_name(interface)?);
    let header = if offloads { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as i16;
    // SAFETY: TUNSETIFF takes an ifreq, which outlives the call.
    done(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) })?;
    if !offloads {
        return Ok(file);
    }
    // Sets of offloads, by preference: the first that the kernel accepts is used.
    let sets = [
        TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_USO4 | TUN_F_USO6,
        TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6,
        TUN_F_CSUM | TUN_F_TSO4,
        TUN_F_CSUM,
        0,
    ];
    let taken = sets.into_iter().any(|set| {
        // SAFETY: TUNSETOFFLOAD takes a number.
        unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, set) == 0 }
    });
    if !taken {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Creates the TAP device `interface` as [`create`] does. The device lasts as long as its network
/// namespace, and another program may open it by its name once the returned file is closed.
///
/// The kernel removes all devices of a namespace at once, when the namespace ends. Removing one
/// device alone takes 27 ms (of a hundred, on two busy processors), during which close blocks.
///
/// # Errors
/// Fails as [`create`] does.
pub fn create_lasting(interface: &str, offloads: bool) -> io::Result<File> {
    let file = create(interface, offloads)?;
    // SAFETY: TUNSETPERSIST takes a number.
    done(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETPERSIST, 1) })?;
    Ok(file)
}

// Constants of linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_USO4: libc::c_ulong = 0x20;
const TUN_F_USO6: libc::c_ulong = 0x40;
