//! Switching a station's offloads off.
//!
//! By default a veth hands over TCP segments of up to 64 KiB with their
//! checksums left blank, on the assumption that hardware further down cuts and
//! sums them. Here no hardware follows: captures would show frames that no wire
//! carries, with checksums that no receiver accepts, and a raw-socket device
//! model would be fed them. Without checksum offload the kernel also segments
//! everything itself, because it must sum each frame.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::KernelError;

/// Turns transmit checksums and segmentation offload of `interface` off, in
/// the namespace in which `socket` was opened.
pub(crate) fn offloads_off(socket: &impl AsFd, interface: &str) -> Result<(), KernelError> {
    for (command, feature) in [
        (ETHTOOL_STXCSUM, "checksum offload"),
        (ETHTOOL_STSO, "TCP segmentation offload"),
        (ETHTOOL_SGSO, "generic segmentation offload"),
    ] {
        set(socket, interface, command, 0).map_err(|error| {
            KernelError::new(format!("switch off {feature} of {interface}"), error).missing_if(
                &[libc::EOPNOTSUPP],
                "veth interfaces with changeable offloads",
            )
        })?;
    }
    Ok(())
}

fn set(socket: &impl AsFd, interface: &str, command: u32, data: u32) -> io::Result<()> {
    let mut value = EthtoolValue { command, data };
    // SAFETY: an ifreq is plain old data; zero is a valid value of every field.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // One byte stays zero, as the kernel expects a C string.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(interface.bytes().take(room))
    {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq whose data pointer leads to the
    // structure its first word announces; both live until the call returns.
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// `struct ethtool_value`, linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
