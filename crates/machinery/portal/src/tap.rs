//! A TAP device: an Ethernet card whose wire is this process.
//!
//! The default portal. Reading and writing cost the least of all ways (the
//! measurements are in docs/network.md), and with `IFF_VNET_HDR` the kernel
//! hands over TCP trains of 64 KiB whole and takes them so.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use timeloom_fabric::Namespace;
use timeloom_net::{Frame, Offload};

use crate::interface::{self, Address};
use crate::port::outcome;
use crate::{Port, PortalError, Received, Sent, segments, vnet};

/// A TAP device in a namespace.
#[derive(Debug)]
pub struct Tap {
    file: File,
    drops: Drops,
    /// Bytes before each frame: a header about offloads, or nothing.
    header: usize,
}

/// Where the kernel counts what it dropped for want of a reader.
#[derive(Debug)]
struct Drops {
    /// `/proc/…/net/dev` of the thread that made the device is that of its
    /// namespace; the socket keeps the namespace alive and tells its number.
    namespace: Option<Namespace>,
    interface: String,
}

impl Tap {
    /// Makes `interface` in `namespace`, with these addresses, and brings it
    /// up. It is gone when this value is dropped.
    ///
    /// # Errors
    /// When there is no `/dev/net/tun`, no right to use it, or an interface of
    /// that name.
    pub fn create(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
    ) -> Result<Self, PortalError> {
        Self::create_as(namespace, interface, address, true)
    }

    /// Creates an interface without offloads: the kernel cuts and sums every frame itself.
    /// For comparison, and for others than [`crate::Emulation`] that get the
    /// descriptor.
    ///
    /// # Errors
    /// As for [`Tap::create`].
    pub fn create_plain(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
    ) -> Result<Self, PortalError> {
        Self::create_as(namespace, interface, address, false)
    }

    /// Sets the longest IP packet that its kernel sends through it; 1500 bytes
    /// before.
    ///
    /// # Errors
    /// When the kernel refuses the size, or the namespace is gone.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), PortalError> {
        let interface = &self.drops.interface;
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let namespace = self.drops.namespace.as_ref();
        let namespace = namespace.ok_or_else(gone);
        let namespace =
            namespace.map_err(|error| PortalError::kernel("enter a namespace", error))?;
        namespace.run(|| interface::set_mtu(interface, mtu))?
    }

    fn create_as(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
        offloads: bool,
    ) -> Result<Self, PortalError> {
        let file = namespace.run(|| {
            let file = open(interface, offloads)?;
            interface::settle(interface, address)?;
            Ok::<_, PortalError>(file)
        })??;
        Ok(Self {
            file,
            drops: Drops {
                namespace: namespace.try_clone().ok(),
                interface: interface.to_owned(),
            },
            header: if offloads { vnet::LENGTH } else { 0 },
        })
    }
}

fn open(interface: &str, offloads: bool) -> Result<File, PortalError> {
    let failed = |error| {
        PortalError::kernel(format!("make the TAP device {interface}"), error).missing_if(
            &[libc::ENOENT, libc::ENODEV, libc::ENXIO],
            "/dev/net/tun (CONFIG_TUN)",
        )
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(failed)?;
    let mut request = interface::named(interface);
    let header = if offloads { libc::IFF_VNET_HDR } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | header;
    request.ifr_ifru.ifru_flags = flags as i16;
    // SAFETY: TUNSETIFF takes an ifreq, which lives until the call returns.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    if answer < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if !offloads {
        return Ok(file);
    }
    // The first set that the kernel takes: UDP trains came with Linux 6.2.
    let sets = [
        TUN_F_CSUM | TUN_F_TSO4 | TUN_F_USO4 | TUN_F_USO6,
        TUN_F_CSUM | TUN_F_TSO4,
        TUN_F_CSUM,
        0,
    ];
    let taken = sets.into_iter().any(|set| {
        // SAFETY: TUNSETOFFLOAD takes a number.
        unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, set) == 0 }
    });
    if !taken {
        return Err(failed(io::Error::last_os_error()));
    }
    Ok(file)
}

impl Tap {
    /// Sends a train or an open checksum as the frames that a wire carries.
    fn send_cut(&mut self, frame: &Frame<'_>) -> io::Result<Sent> {
        let mut outcome = Ok(Sent::Done);
        segments(frame, &mut Vec::new(), |bytes| {
            let whole = Frame {
                at: frame.at,
                head: bytes,
                rest: &[],
                offload: Offload::default(),
            };
            let sent = self.send(&whole);
            if matches!(outcome, Ok(Sent::Done)) {
                outcome = sent;
            }
        });
        outcome
    }
}

impl Port for Tap {
    fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received> {
        vnet::receive(self.file.as_raw_fd(), self.header, buffer)
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<Sent> {
        if self.header == 0 && frame.offload != Offload::default() {
            return self.send_cut(frame);
        }
        let header = vnet::write(frame.offload, frame.head.len());
        let parts = [&header[..self.header], frame.head, frame.rest].map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        // SAFETY: the kernel only reads from the parts, which are as long as
        // they say.
        let answer = unsafe { libc::writev(self.file.as_raw_fd(), parts.as_ptr(), 3) };
        match outcome(answer) {
            Ok(_) => Ok(Sent::Done),
            Err(error) => match error.raw_os_error() {
                // EIO: the interface is down; EINVAL: no frame for its kernel.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EIO | libc::EINVAL) => {
                    Ok(Sent::Refused)
                }
                _ => Err(error),
            },
        }
    }

    fn takes_trains(&self) -> bool {
        self.header > 0
    }

    fn dropped_before(&self) -> u64 {
        let Drops {
            namespace,
            interface,
        } = &self.drops;
        let count = namespace
            .as_ref()
            .and_then(|namespace| namespace.run(|| interface::transmit_drops(interface)).ok());
        count.flatten().unwrap_or(0)
    }
}

// linux/if_tun.h
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_USO4: libc::c_ulong = 0x20;
const TUN_F_USO6: libc::c_ulong = 0x40;
